"""`select`: the search with everything that an honest reader asks of its result."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from eevee.answers.nested import CurvePoint, Nested, learning_curve, nested_error
from eevee.answers.scorer_choice import AUTO, resolve_scorer, sample_subsets
from eevee.answers.scoring import Judged, judge_subset, require_randoms
from eevee.errors import EeveeError
from eevee.scorers.named import recorded_scorer
from eevee.scorers.scorer import Scorer, is_quick
from eevee.searching.search import Evaluator, search
from eevee.searching.space import Constraints, Space
from eevee.tables.checking import derived_warning, shares_warning
from eevee.tables.holdout import families_note, require_holdout
from eevee.tables.serialization import read_result, restored
from eevee.tables.standard import standardise
from eevee.tables.table import require_table
from wary_files.errors import whole_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from eevee.progress import Progress
    from eevee.searching.search import MapFunction
    from eevee.tables.table import ResultTable


@dataclass(frozen=True, kw_only=True)
class Selection(Judged):
    """A chosen subset, its error, and how far to trust it.

    `error` ± `stderr` is of the cells that the objective counts, `unmeasured` ± `unmeasured_stderr` leave-one-out's of
    those outside the subset; `better_randoms` of `randoms` random subsets, whose mean is `random_error`, are better;
    `rival` is another searcher's subset, `importance` the rise of the error without each member.

    Args:
        constraints: what the subset satisfies.
        method: searcher.
        settings: the meta-model with its settings.
        cost: total cost, where the table has costs.
        asked: candidates whose error the search asked for.
        scored: different candidates among them.
        seconds: of the search itself.
        nested: error on models that the search never saw; None where it was switched off.
        curve: errors against the number of models.
        winners: the best candidates and their errors.
        warnings: what a reader must know, in plain words.

    Example:
        >>> from eevee import load_table
        >>> chosen = select(load_table("gate"), k=2, method="greedy", nested=False, randoms=20)
        >>> len(chosen.importance), chosen.scored >= chosen.randoms
        (2, True)
    """

    constraints: Constraints
    method: str
    settings: Scorer
    cost: float | None
    asked: int
    scored: int
    seconds: float
    nested: Nested | None
    curve: tuple[CurvePoint, ...]
    winners: tuple[tuple[tuple[str, ...], float], ...]
    warnings: tuple[str, ...] = field(default=())


@whole_numbers("seed", "generations", "randoms", "folds", error=EeveeError)
def select(
    table: ResultTable,
    k: int | None = None,
    *,
    budget: float | None = None,
    include: Sequence[str] = (),
    given: Sequence[str] = (),
    exclude: Sequence[str] = (),
    one_per_family: bool = False,
    cover: Sequence[str] = (),
    method: str = "evolution",
    scorer: Scorer | str | None = None,
    objective: str | None = None,
    holdout: str = "model",
    seed: int = 0,
    generations: int = 20,
    randoms: int = 1000,
    nested: bool = True,
    folds: int | None = None,
    map_function: MapFunction = map,
    progress: Progress | None = None,
) -> Selection:
    """Choose the benchmarks that tell the rest.

    Args:
        table: results of models on all benchmarks.
        k: how many to choose; may be left out where a budget is given.
        budget: largest total cost.
        include: ids that must be chosen.
        given: ids that are measured anyhow, beside the k and free of cost: what tells most besides them?
        exclude: ids that must not.
        one_per_family: at most one of each family.
        cover: task types that must be present; ("all",) for every one.
        method: `evolution` (the paper's), `greedy`, `greedy-swap`, `random`, `exhaustive`, or `medoids`, which looks at
            correlations alone.
        scorer: the meta-model, or its name; `RidgeScorer()` by default; `auto` compares ridge, the Gaussian process and
            their average by leave-one-out and says what it chose.
        objective: `all` metrics count (the default), or the `unselected` ones; a scorer that is given as an object has
            its own, or takes this one.
        holdout: whom the held-out error is for: a `model` of families like the table's, one of a new `family`, or one
            newer than all (`date`).
        seed: of everything random: the same seed gives the same result.
        generations: of the evolution, at most.
        randoms: random subsets for the percentile.
        nested: also search without each fold of models and measure there (by the same method where the scorer is quick
            on this table, greedy + swap in place of an exhaustive search, and by plain greedy otherwise); also the
            learning curve.
        folds: of the nested estimate, see `eevee.tables.holdout.split_groups`.
        map_function: spreads chunks of candidates, see `eevee.searching.search`.
        progress: called as the search and what follows it advance.

    Returns:
        The subset with its error, its rank among random subsets, its greedy + swap rival and its held-out error.

    Raises:
        EeveeError: constraints that cannot be met; the message prints what is wrong and what was expected.

    Example:
        >>> from eevee import load_table
        >>> chosen = select(load_table("gate"), k=2, method="greedy-swap", nested=False)
        >>> len(chosen.benchmarks), chosen.error < chosen.random_error
        (2, True)

    Source: section 3 and algorithms 1-3 of the EEVEE paper. What is ours: the ridge meta-model as the default, the
    percentile, the rival, the nested estimate, constraints.
    """
    require_table(table)
    require_randoms(randoms)
    require_holdout(table, holdout)
    constraints = Constraints(k, budget, tuple(include), tuple(exclude), one_per_family, tuple(cover), tuple(given))
    space = Space(table, constraints)
    samples = sample_subsets(table, space, seed) if scorer == AUTO else []
    meta, choice = resolve_scorer(scorer, table, samples, objective)
    if meta.objective == "unselected" and space.k == len(table.benchmarks):
        raise EeveeError(f"k is {k}, every benchmark: the objective 'unselected' then has nothing to predict")
    data = standardise(table)
    quick = is_quick(meta, data)
    evaluate = Evaluator(meta, data, map_function=map_function, progress=progress)
    started = time.perf_counter()
    result = search(method, evaluate, space, seed=seed, generations=generations)
    seconds = time.perf_counter() - started
    scored = len(evaluate.cache)
    rival_method = "greedy-swap" if method != "greedy-swap" else "greedy"
    judged = judge_subset(
        table, space, evaluate, result.best, choice, seed=seed, randoms=randoms, rival_method=rival_method
    )
    inside = ("greedy-swap" if method == "exhaustive" else method) if quick else "greedy"
    honest: Nested | None = None
    curve: tuple[CurvePoint, ...] = ()
    if nested:
        honest = nested_error(
            table,
            space,
            meta,
            method=inside,
            seed=seed,
            folds=folds,
            holdout=holdout,
            randoms=50 if quick else 10,
            generations=generations,
            map_function=map_function,
            progress=progress,
        )
        curve = learning_curve(table, space, meta, seed=seed, repeats=8 if quick else 1, progress=progress)
    names = table.benchmark_ids
    costs = [0.0 if benchmark.id in given else benchmark.cost for benchmark in table.benchmarks]
    return Selection(
        **judged,
        constraints=constraints,
        method=method,
        settings=meta,
        cost=None if None in costs else sum(costs[i] or 0.0 for i in result.best),
        asked=result.asked,
        scored=scored,
        seconds=seconds,
        nested=honest,
        curve=curve,
        winners=tuple((tuple(names[i] for i in candidate), error) for candidate, error in result.winners),
        warnings=tuple(selection_warnings(table, result.error, judged["rival"].error, honest, curve)),
    )


def read_selection(path: str | Path, table: ResultTable, scorer: Scorer | None = None) -> Selection:
    """Read a selection back from its JSON.

    Args:
        path: of the JSON.
        table: that the selection was made from.
        scorer: needed only where a scorer of your own made it: a file names no code to run.

    Raises:
        EeveeError: not a selection, one of another table, or of another scorer than the given; the message names the
            file.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from eevee import load_table
        >>> table = load_table("gate")
        >>> path = Path(tempfile.mkdtemp()) / "chosen.json"
        >>> text = select(table, k=2, method="greedy", nested=False, randoms=20).to_json(path)
        >>> len(read_selection(path, table).benchmarks)
        2
    """
    raw = read_result(path, table)
    if raw.pop("result", None) != "Selection":
        raise EeveeError(f"{path}: not a result of `eevee select`")
    try:
        if scorer is not None and scorer.name != raw["scorer"]:
            raise EeveeError(f"made with the scorer {raw['scorer']!r}, and {scorer.name!r} is given")
        settings = scorer or recorded_scorer(raw["scorer"], raw["settings"])
        chosen: Selection = restored(Selection, {**raw, "settings": None})
        known = {benchmark.id for benchmark in table.benchmarks}
        if not 0 < len(chosen.benchmarks) == len(known & {*chosen.benchmarks}):
            raise EeveeError("its benchmarks are none, come twice, or are not the table's")
        return replace(chosen, settings=settings)
    except EeveeError as error:
        raise EeveeError(f"{path}: {error}") from None
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise EeveeError(f"{path}: not a complete selection ({type(error).__name__}: {error})") from None


FEW_MODELS = 50
LOUD = 0.2


def few_models(table: ResultTable) -> str:
    """Return how many models a choice needs, where these are fewer; empty where they are enough."""
    groups = len(set(table.groups))
    if groups >= FEW_MODELS:
        return ""
    return (
        f"{groups} models (or groups of near-twins) are few, {FEW_MODELS} are enough: the error of a subset on a new "
        f"model is uncertain, and another pool of models would choose other benchmarks; a known table with your rows "
        f"added has more (eevee select RUN... --table gate)"
    )


def models_needed(k: int | None, *, seed: int = 0) -> str:
    """Return how the error on a new model falls with the models known, and where it stops, in the shipped table.

    Greedy choices of k benchmarks (8 by default) from drawn models of `gate` are scored on its other models. Enough is
    the smallest number whose error is at most a tenth above that of the largest; where none is, more are needed.

    Example:
        >>> models_needed(8)[:36]
        'in the shipped table gate the error '
    """
    from eevee.scorers.ridge import RidgeScorer
    from eevee.tables.loading import load_table

    known = load_table("gate")
    chosen = min(k or 8, len(known.benchmarks) - 1)
    space, sizes = Space(known, Constraints(k=chosen)), (6, 9, 12, 15, 18)
    curve = learning_curve(known, space, RidgeScorer(), seed=seed, repeats=16, sizes=sizes)
    enough = next(point.models for point in curve if point.outer <= 1.1 * curve[-1].outer)
    shown = ", ".join(f"{point.outer:.2f} with {point.models}" for point in curve)
    most = curve[-1].models
    need = f"about {enough} are needed" if enough < most else f"it still falls there, so {most} or more are needed"
    return f"in the shipped table gate the error of {chosen} benchmarks on a new model is {shown} models known: {need}"


def selection_warnings(
    table: ResultTable, error: float, rival_error: float, honest: Nested | None, curve: Sequence[CurvePoint]
) -> list[str]:
    """Warnings about a selection: too few models, a better rival, an optimistic, unstable or chance-like result."""
    lines = list(filter(None, [shares_warning(table), derived_warning(table)]))
    if honest is not None and not (honest.better_than_random or math.isnan(honest.unmeasured)):
        lines.append(
            f"no better than random: on held-out models the subset's error is {honest.unmeasured:.3f} and that of "
            f"random subsets {honest.unmeasured_random:.3f}, a difference within chance"
        )
    if honest is not None and honest.loud.share > LOUD:
        cell = honest.loud
        lines.append(
            f"one cell makes {cell.share:.0%} of the held-out error: {cell.metric} of {cell.model} ({cell.value:g}); "
            f"check it, or limit what outliers do with scaling winsor"
        )
    if honest is not None and honest.holdout == "family" and (note := families_note(table)):
        lines.append(note)
    if line := few_models(table):
        lines.append(line)
    if rival_error < error * (1 - 1e-9):
        lines.append(f"{rival_error:.4f}, the other searcher's error, is lower than {error:.4f}")
    if honest is not None:
        if honest.optimism > 0.1:
            lines.append(
                f"the reported error is optimistic: held-out models have an error {honest.optimism:.0%} higher"
            )
        if honest.overlap < 0.7:
            lines.append(f"the chosen set is unstable: two folds share {honest.overlap:.0%} of their members")
    if len(curve) >= 2 and curve[-1].outer < 0.95 * curve[-2].outer:
        lines.append(
            f"more models would help: the held-out error still fell from {curve[-2].outer:.3f} with {curve[-2].models} "
            f"models to {curve[-1].outer:.3f} with {curve[-1].models}"
        )
    return lines
