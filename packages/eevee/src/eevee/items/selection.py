"""`choose_items`: the few test items of a benchmark that tell its score, with the error on held-out models."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from eevee.errors import EeveeError
from eevee.items.adaptive import AdaptiveTest
from eevee.items.drawing import choose_anchors, corrected_mean, draw_items
from eevee.items.irt import fit_abilities, fit_irt, information, sigmoid
from eevee.items.subset import ADAPTIVE, CLUSTERS, CURVE, DRAWN, LEVEL, METHODS, BenchmarkItems, ItemChoice
from eevee.tables.holdout import FEWEST, name_families, rising_folds
from wary_files.errors import whole_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Float

    from eevee.items.irt import Irt
    from eevee.items.outcomes import Outcomes
    from eevee.progress import Progress

HOLDOUTS = ("model", "family", "frontier")
FOLDS = 10
EVEN = 0.5

NAMES = {CLUSTERS: "gp-IRT"}
"""What an error is of, where it is not called as the method."""


@dataclass(frozen=True)
class Estimate:
    """A benchmark's whole score from some of its items, with the ends of its interval, in the score's unit."""

    value: float
    low: float
    high: float


@whole_numbers("count", "seed", error=EeveeError)
def choose_items(
    outcomes: Mapping[str, Outcomes],
    *,
    share: float = 0.05,
    count: int | None = None,
    method: str = DRAWN,
    level: float = LEVEL,
    holdout: str = "model",
    seed: int = 0,
    progress: Progress | None = None,
) -> ItemChoice:
    """Choose the items of each benchmark that tell its score best, and measure how well on held-out models.

    Args:
        outcomes: by benchmark, see `read_outcomes`.
        share: of the items, in (0, 1]; the count is rounded down, at least 2.
        count: of items, in place of the share.
        method: `drawn` draws items with equal chances along their difficulty and corrects the prediction by what it
            misses on them: its interval holds for whatever model, a better one than all before included. `clusters`
            takes tinyBenchmarks' anchors and gp-IRT, which hold for models like these. `adaptive`
            keeps all items, for tests that ask by blocks (see `adaptive_test`); its error is that of so many.
        level: of the intervals, in (0, 1).
        holdout: whom the errors are of: a `model` like these (ten folds), one of a new `family`, as the names tell
            families, or one that is better than all (`frontier`: better ones held out from worse ones).
        seed: of folds, draws and clusters.
        progress: called for each benchmark and fold.

    Raises:
        EeveeError: no benchmark, or settings that cannot be used; the message shows it.

    Example:
        >>> from eevee.items.outcomes import Outcomes
        >>> generator = np.random.default_rng(0)
        >>> chance = sigmoid(np.add.outer(generator.normal(size=20), generator.normal(size=400)))
        >>> values = (generator.random(chance.shape) < chance).astype(float)
        >>> toy = Outcomes("toy", tuple(f"m{i}" for i in range(20)), tuple(f"i{j}" for j in range(400)), values)
        >>> chosen = choose_items({"toy": toy}, share=0.1).benchmarks["toy"]
        >>> len(chosen.items), chosen.error < 0.08
        (40, True)

    Source: the drawn items' estimate is augmented inverse probability weighting (see `eevee.items.drawing`); anchors
        and gp-IRT, with an even mix, are tinyBenchmarks' (Polo et al., 2024), and stand beside all. Errors are
        of models held out, by ten folds (or as many as there are models).
    """
    if not outcomes:
        raise EeveeError("no outcomes; expected those of at least one benchmark")
    if not (0 < share <= 1 and math.isfinite(share)):
        raise EeveeError(f"share is {share}; expected a number above 0, at most 1")
    if not 0 < level < 1:
        raise EeveeError(f"level is {level}; expected a number between 0 and 1, exclusive")
    if holdout not in HOLDOUTS:
        raise EeveeError(f"holdout {holdout!r}; expected one of {', '.join(HOLDOUTS)}")
    if method not in METHODS:
        raise EeveeError(f"method {method!r}; expected one of {', '.join(METHODS)}")
    chosen = {}
    for number, (key, bench) in enumerate(outcomes.items()):
        if progress is not None:
            progress(f"items of {key}", number, len(outcomes))
        size = max(2, int(share * len(bench.items))) if count is None else count
        chosen[key] = _choose(bench, size, method, level, holdout, seed)
    return ItemChoice(level, seed, chosen)


def _choose(bench: Outcomes, size: int, method: str, level: float, holdout: str, seed: int) -> BenchmarkItems:
    if not 1 <= size <= len(bench.items):
        raise EeveeError(f"{bench.benchmark}: {size} items are to be chosen of {len(bench.items)}; expected 1 to all")
    folds = _folds(bench, holdout, seed)
    column_of = {key: number for number, key in enumerate(bench.items)}
    names = (method, *(name for name in (DRAWN, CLUSTERS) if name != method))
    rows = {name: np.full(len(bench.models), np.nan) for name in (*names, "anchors", "half")}
    for fold, (train, part) in enumerate(folds):
        irt = fit_irt(bench.values[train])
        for name in names:
            items = _learn(bench, irt, size, name, level, np.random.default_rng((seed, fold)))
            if name == ADAPTIVE:
                pairs = [_asked(items, row, size, seed) for row in bench.values[part]]
                rows[name][part], rows["half"][part] = np.transpose(pairs)
                continue
            values = bench.values[part][:, [column_of[key] for key in items.items]]
            rows[name][part], low, high = _estimates(items, values)
            if name == CLUSTERS:
                rows["anchors"][part] = _estimates(replace(items, mix=1.0), values)[0]
            elif name == method:
                rows["half"][part] = (high - low) / 2
    tried = np.concatenate([part for _, part in folds])
    off = {name: np.abs(row - bench.scores())[tried] for name, row in rows.items() if name != "half"}
    errors = {"plain mean": _plain_error(bench, size, tried)}
    errors |= {NAMES.get(name, name): float(np.sqrt((row**2).mean())) for name, row in off.items()}
    rank = min(len(tried), math.ceil(level * (len(tried) + 1))) - 1
    half = np.sort(off[method])[rank] if method == CLUSTERS else np.median(rows["half"][tried])
    return replace(
        _learn(bench, fit_irt(bench.values), size, method, level, np.random.default_rng(seed)),
        error=errors[NAMES.get(method, method)] * bench.unit,
        half=float(half) * bench.unit,
        errors={name: error * bench.unit for name, error in errors.items()},
    )


def _folds(bench: Outcomes, holdout: str, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Models to learn from, and held-out ones."""
    if holdout == "frontier":
        sign = 1 if bench.direction == "higher" else -1
        rising = rising_folds(sign * bench.scores(), bench.models, bench.benchmark)
        return [(np.array(train), np.array(held)) for train, held in rising]
    groups = np.array(name_families(bench.models) if holdout == "family" else range(len(bench.models)))
    if not len(groups):
        raise EeveeError(f"{bench.benchmark}: the names of its {len(bench.models)} models tell no families")
    labels = np.random.default_rng(seed).permutation(np.unique(groups))
    parts = [np.isin(groups, labels[f :: min(FOLDS, len(labels))]) for f in range(min(FOLDS, len(labels)))]
    if min((~held).sum() for held in parts) < FEWEST:
        raise EeveeError(f"{bench.benchmark}: without one family fewer than {FEWEST} models are left to learn from")
    return [(np.flatnonzero(~held), np.flatnonzero(held)) for held in parts]


def _learn(
    bench: Outcomes, irt: Irt, size: int, name: str, level: float, generator: np.random.Generator
) -> BenchmarkItems:
    """Items by a method, and what an estimate from them needs; how well it does is not known yet."""
    if name == CLUSTERS:
        chosen, weights = choose_anchors(irt, size, generator)
    else:
        everything = np.arange(len(bench.items))
        ease = irt.probability(irt.ability).mean(0)
        chosen = everything if name == ADAPTIVE else draw_items(ease, size, generator)
        weights = np.full(len(chosen), 1 / len(chosen))
    unchosen = np.delete(np.arange(len(bench.items)), chosen)
    curve = irt.probability(CURVE)[:, unchosen].mean(1) if len(unchosen) else np.zeros(len(CURVE))
    return BenchmarkItems(
        benchmark=bench.benchmark,
        digest=bench.digest,
        total=len(bench.items),
        unit=bench.unit,
        items=tuple(bench.items[i] for i in chosen),
        weights=tuple(weights.tolist()),
        slope=tuple(irt.slope[chosen].tolist()),
        offset=tuple(irt.offset[chosen].tolist()),
        rest=tuple(curve.tolist()),
        mix=EVEN if name == CLUSTERS else 0.0,
        method=name,
        error=0.0,
        half=0.0,
        errors={},
        models=len(bench.models),
        level=level,
    )


def _asked(bank: BenchmarkItems, values: Float[np.ndarray, " items"], size: int, seed: int) -> tuple[float, float]:
    """What an adaptive test of so many items says of a model, and half its interval.

    A missing outcome counts as the mean of the others, which is the model's score.
    """
    answers = np.where(np.isnan(values), np.nanmean(values), values)
    test = adaptive_test(bank, until=0.0, most=size, seed=seed)
    while block := test.next_block():
        test.tell(answers[block])
    score = test.known()
    return score.value, (score.high - score.low) / 2


@whole_numbers("most", "seed", error=EeveeError)
def adaptive_test(bank: BenchmarkItems, *, until: float, most: int | None = None, seed: int = 0) -> AdaptiveTest:
    """An adaptive test by a benchmark's bank of items, as `choose_items` makes it with the method `adaptive`.

    Args:
        bank: of all items.
        until: half-width at which it stops, in the score's unit.
        most: items to ask at most; all by default.
        seed: of the draws.

    Raises:
        EeveeError: items that were chosen by another method.

    Example:
        >>> generator = np.random.default_rng(0)
        >>> chance = sigmoid(np.add.outer(generator.normal(size=12), generator.normal(size=400)))
        >>> values = (generator.random(chance.shape) < chance).astype(float)
        >>> from eevee import Outcomes
        >>> toy = Outcomes("toy", tuple(f"m{i}" for i in range(12)), tuple(f"i{j}" for j in range(400)), values)
        >>> bank = choose_items({"toy": toy}, method="adaptive").benchmarks["toy"]
        >>> test = adaptive_test(bank, until=0.1)
        >>> while block := test.next_block():
        ...     test.tell(values[0, block])
        >>> test.known().items < 400
        True
    """
    if bank.method != ADAPTIVE:
        raise EeveeError(f"{bank.benchmark}: items chosen by {bank.method}; an adaptive test needs --method {ADAPTIVE}")
    slope, offset = np.array(bank.slope), np.array(bank.offset)
    return AdaptiveTest(
        bank.total, until=until / bank.unit, level=bank.level, slope=slope, offset=offset, most=most, seed=seed
    )


def _plain_error(bench: Outcomes, size: int, models: np.ndarray) -> float:
    """RMSE of the plain mean of so many random items, over models and draws, exactly."""
    spread = np.nanvar(bench.values[models], axis=1, ddof=1)
    return float(np.sqrt((spread * (1 / size - 1 / len(bench.items))).mean()))


def estimate(chosen: BenchmarkItems, outcomes: Mapping[str, float]) -> Estimate:
    """A benchmark's whole score from a model's outcomes on the chosen items.

    Args:
        chosen: what `choose_items` chose for the benchmark.
        outcomes: by item id, 0 to 1; all chosen items must be there, and no others.

    Raises:
        EeveeError: items that are missing or were not chosen, or a value outside 0 to 1; the message shows it.

    Example:
        >>> generator = np.random.default_rng(0)
        >>> chance = sigmoid(np.add.outer(generator.normal(size=12), generator.normal(size=100)))
        >>> values = (generator.random(chance.shape) < chance).astype(float)
        >>> from eevee import Outcomes
        >>> toy = Outcomes("toy", tuple(f"m{i}" for i in range(12)), tuple(f"i{j}" for j in range(100)), values)
        >>> choice = choose_items({"toy": toy}, count=10)
        >>> estimated = estimate(choice.benchmarks["toy"], dict.fromkeys(choice.benchmarks["toy"].items, 1.0))
        >>> bool(estimated.value > values.mean()), estimated.low <= estimated.value <= estimated.high
        (True, True)
    """
    missing = [key for key in chosen.items if key not in outcomes]
    if missing or len(outcomes) != len(chosen.items):
        unchosen = [key for key in outcomes if key not in set(chosen.items)]
        raise EeveeError(
            f"{chosen.benchmark}: {len(missing)} of the {len(chosen.items)} chosen items are missing"
            f"{f' ({missing[0]!r})' if missing else ''}, {len(unchosen)} were not chosen"
            f"{f' ({unchosen[0]!r})' if unchosen else ''}"
        )
    values = np.array([[float(outcomes[key]) for key in chosen.items]])
    if not ((values >= 0) & (values <= 1)).all():
        raise EeveeError(f"{chosen.benchmark}: an outcome is outside 0 to 1")
    value, low, high = (float(part[0]) * chosen.unit for part in _estimates(chosen, values))
    if chosen.method == CLUSTERS:
        low, high = max(0.0, value - chosen.half), min(chosen.unit, value + chosen.half)
    return Estimate(value, low, high)


def _estimates(
    chosen: BenchmarkItems, values: Float[np.ndarray, "n count"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Scores from 0 to 1 of models with these outcomes, and their intervals' ends; by clusters see `half`."""
    if chosen.method == ADAPTIVE:
        return (values.mean(1),) * 3
    slope, offset = np.array(chosen.slope), np.array(chosen.offset)
    measured = ~np.isnan(values)
    filled, mask = np.where(measured, values, 0.0), measured.astype(np.float64)
    ability = fit_abilities(filled, mask, slope, offset)
    expected = sigmoid(np.multiply.outer(ability, slope) + offset)
    unchosen = np.interp(ability, CURVE, np.array(chosen.rest)) * (chosen.total - len(slope))
    if chosen.method == CLUSTERS:
        weights = mask * np.array(chosen.weights)
        mean = (filled * weights).sum(1) / np.maximum(weights.sum(1), 1e-12)
        model = (np.where(measured, values, expected).sum(1) + unchosen) / chosen.total
        return (chosen.mix * mean + (1 - chosen.mix) * model,) * 3
    known = ability, information(ability, mask, slope, offset)
    everything = (expected.sum(1) + unchosen) / chosen.total
    return corrected_mean(values, expected, everything, chosen.total, chosen.level, known)
