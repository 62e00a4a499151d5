"""`select`: the search with everything that an honest reader asks of its result."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eevee.contribution import importance
from eevee.errors import EeveeError
from eevee.evaluation import Evaluator, Scorer, journal_key
from eevee.mlp import MlpScorer
from eevee.nested import CurvePoint, Nested, learning_curve, nested_error
from eevee.record import Recorded, read_result
from eevee.ridge import RidgeScorer
from eevee.search import search
from eevee.space import Constraints, Space
from eevee.standard import standardise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from eevee.evaluation import MapFunction
    from eevee.evolution import Found
    from eevee.table import ResultTable

FEW_MODELS = 50
QUICK_CELLS = 5_000


@dataclass(frozen=True)
class Rival:
    """Another searcher's subset, for comparison."""

    method: str
    benchmarks: tuple[str, ...]
    error: float
    asked: int


@dataclass(frozen=True)
class Selection(Recorded):
    """A chosen subset, its error, and how far to trust it.

    Args:
        table: name of the table.
        data_hash: hash of the table.
        constraints: what the subset satisfies.
        method: searcher.
        scorer: meta-model.
        objective: what the error measures.
        settings: settings of the meta-model.
        seed: of everything random.
        benchmarks: the chosen ids, in the table's order.
        error: error that the search reports (optimistic: see `nested`).
        stderr: its standard error over models.
        cost: total cost, where the table has costs.
        better_randoms: share of random feasible subsets with a lower error.
        randoms: how many random subsets that counts.
        random_error: their mean error.
        rival: greedy + swap's subset (plain greedy's where the method is greedy + swap itself).
        asked: candidates whose error the search asked for.
        scored: different candidates among them.
        seconds: of the search itself.
        importance: rise of the error without each member (the paper's figure 4).
        nested: error on models that the search never saw; None where it was switched off.
        curve: errors against the number of models.
        winners: the best candidates and their errors.
        warnings: what a reader must know, in plain words.
    """

    table: str
    data_hash: str
    constraints: Constraints
    method: str
    scorer: str
    objective: str
    settings: Scorer
    seed: int
    benchmarks: tuple[str, ...]
    error: float
    stderr: float
    cost: float | None
    better_randoms: float
    randoms: int
    random_error: float
    rival: Rival
    asked: int
    scored: int
    seconds: float
    importance: dict[str, float]
    nested: Nested | None
    curve: tuple[CurvePoint, ...]
    winners: tuple[tuple[tuple[str, ...], float], ...]
    warnings: tuple[str, ...] = field(default=())


def select(
    table: ResultTable,
    k: int | None = None,
    *,
    budget: float | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    one_per_family: bool = False,
    cover: Sequence[str] = (),
    method: str = "evolution",
    scorer: Scorer | None = None,
    seed: int = 0,
    generations: int = 20,
    randoms: int = 1000,
    nested: bool = True,
    nested_method: str | None = None,
    folds: int | None = None,
    map_function: MapFunction = map,
    journal: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Selection:
    """Choose the benchmarks that tell the rest.

    Args:
        table: results of models on all benchmarks.
        k: how many to choose; may be left out where a budget is given.
        budget: largest total cost.
        include: ids that must be chosen.
        exclude: ids that must not.
        one_per_family: at most one of each family.
        cover: task types that must be present; ("all",) for every one.
        method: `evolution` (the paper's), `greedy`, `greedy-swap`, `random` or `exhaustive`.
        scorer: the meta-model, `RidgeScorer()` by default.
        seed: of everything random: the same seed gives the same result.
        generations: of the evolution, at most.
        randoms: random subsets for the percentile.
        nested: also search without each fold of models and measure there; also the learning curve.
        nested_method: searcher inside the folds; by default the same with ridge on tables of up to 5,000 cells without
            gaps (greedy + swap in place of an exhaustive search), and plain greedy otherwise.
        folds: of the nested estimate, see `eevee.nested.split_groups`.
        map_function: spreads chunks of candidates, see `eevee.executors`.
        journal: file from which an interrupted search continues; the held-out searches keep theirs beside it.
        progress: called with lines of progress.

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
    meta = scorer or RidgeScorer()
    constraints = Constraints(k, budget, tuple(include), tuple(exclude), one_per_family, tuple(cover))
    space = Space(table, constraints)
    if meta.objective == "unselected" and k == len(table.benchmarks):
        raise EeveeError(f"k is {k}, every benchmark: the objective 'unselected' then has nothing to predict")
    data = standardise(table)
    say = progress or (lambda line: None)
    key = journal_key(table.hash, repr(meta))
    chunk = 64 if meta.name == "mlp" else 500

    def evaluator(path: Path | None = None) -> Evaluator:
        return Evaluator(
            meta,
            data,
            map_function=map_function,
            chunk=chunk,
            journal=path,
            key=key,
            progress=lambda count, best: say(f"{count} candidates, lowest error {best:.4f}"),
        )

    evaluate = evaluator(journal)
    started = time.perf_counter()
    found = search(method, evaluate, space, seed=seed, generations=generations)
    seconds = time.perf_counter() - started
    scored = len(evaluate.cache)
    generator = random.Random(seed + 1)
    sample = evaluate([space.draw(generator) for _ in range(randoms)])
    other = "greedy-swap" if method != "greedy-swap" else "greedy"
    rival = search(other, evaluate, space, seed=seed, generations=generations)
    inside = nested_method or _nested_method(method, meta, table)
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
            randoms=50 if _quick(meta, table) else 10,
            generations=generations,
            map_function=map_function,
            chunk=chunk,
            journal=journal,
            key=key,
            progress=say,
        )
        say("learning curve")
        curve = learning_curve(table, space, meta, seed=seed, repeats=8 if _quick(meta, table) else 1)
    names = table.benchmark_ids
    costs = [benchmark.cost for benchmark in table.benchmarks]
    return Selection(
        table=table.name,
        data_hash=table.hash,
        constraints=constraints,
        method=method,
        scorer=meta.name,
        objective=meta.objective,
        settings=meta,
        seed=seed,
        benchmarks=tuple(names[i] for i in found.best),
        error=found.error,
        stderr=evaluate.stderr(found.best),
        cost=None if None in costs else sum(costs[i] or 0.0 for i in found.best),
        better_randoms=sum(error < found.error for error in sample) / len(sample),
        randoms=len(sample),
        random_error=sum(sample) / len(sample),
        rival=Rival(other, tuple(names[i] for i in rival.best), rival.error, rival.asked),
        asked=found.asked,
        scored=scored,
        seconds=seconds,
        importance=importance(table, [names[i] for i in found.best], scorer=meta),
        nested=honest,
        curve=curve,
        winners=tuple((tuple(names[i] for i in candidate), error) for candidate, error in found.winners),
        warnings=tuple(_warnings(table, found, rival, honest, curve)),
    )


def read_selection(path: str | Path, table: ResultTable) -> Selection:
    """Read a selection back from its JSON.

    Raises:
        EeveeError: not a selection, or one of another table; the message names the file.
    """
    raw = read_result(path, table)
    if raw.pop("result", None) != "Selection":
        raise EeveeError(f"{path}: not a result of `eevee select`")
    scorers = {"ridge": RidgeScorer, "mlp": MlpScorer}
    try:
        nested = raw["nested"]
        if nested is not None:
            nested = Nested(**{**nested, "per_model": {key: tuple(pair) for key, pair in nested["per_model"].items()}})
        constraints: dict[str, Any] = {
            key: tuple(v) if isinstance(v, list) else v for key, v in raw["constraints"].items()
        }
        raw |= {
            "constraints": Constraints(**constraints),
            "settings": scorers[raw["scorer"]](**raw["settings"]),
            "rival": Rival(**{**raw["rival"], "benchmarks": tuple(raw["rival"]["benchmarks"])}),
            "nested": nested,
            "curve": tuple(CurvePoint(**point) for point in raw["curve"]),
            "winners": tuple((tuple(names), error) for names, error in raw["winners"]),
            "benchmarks": tuple(raw["benchmarks"]),
            "warnings": tuple(raw["warnings"]),
        }
        return Selection(**raw)
    except (KeyError, TypeError, ValueError) as error:
        raise EeveeError(f"{path}: not a complete selection ({type(error).__name__}: {error})") from None


def _quick(scorer: Scorer, table: ResultTable) -> bool:
    complete = not any(value != value for value in table.values.flat)
    return scorer.name == "ridge" and complete and table.values.size <= QUICK_CELLS


def _nested_method(method: str, scorer: Scorer, table: ResultTable) -> str:
    if not _quick(scorer, table):
        return "greedy"
    return "greedy-swap" if method == "exhaustive" else method


def _warnings(
    table: ResultTable, found: Found, rival: Found, honest: Nested | None, curve: Sequence[CurvePoint]
) -> list[str]:
    lines = []
    groups = len(set(table.groups))
    if groups < FEW_MODELS:
        lines.append(
            f"{groups} models (or groups of near-twins) are few: the error of a subset on a new model is "
            f"uncertain, and "
            "another pool of models would choose other benchmarks"
        )
    if rival.error < found.error * (1 - 1e-9):
        lines.append(f"{rival.error:.4f}, the other searcher's error, is lower than {found.error:.4f}")
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
