"""Error against cost: the Pareto front of subsets (NSGA-II on DEAP's toolbox), and tiers from budgets."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deap import base, tools

from eevee.answers.scorer_choice import AUTO, resolve_scorer, sample_subsets
from eevee.answers.selecting import Selection, select
from eevee.errors import EeveeError
from eevee.searching.search import Evaluator, Individual, Lowest, greedy
from eevee.searching.space import Constraints, Space
from eevee.tables.holdout import left_out_together
from eevee.tables.serialization import Recorded, plain_data
from eevee.tables.standard import standardise
from eevee.tables.table import require_table
from wary_files.errors import whole_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eevee.progress import Progress
    from eevee.scorers.scorer import Scorer
    from eevee.searching.space import Candidate
    from eevee.tables.table import ResultTable

COUNTED = "benchmarks"


@dataclass(frozen=True)
class FrontPoint:
    """A subset that no other found one beats in both error and cost."""

    benchmarks: tuple[str, ...]
    error: float
    stderr: float
    cost: float


@dataclass(frozen=True)
class ParetoFront(Recorded):
    """The Pareto front, cheapest first.

    Args:
        table: name of the table.
        data_hash: its hash.
        scorer: meta-model.
        objective: what the error measures.
        seed: of the search.
        unit: `cost`, or `benchmarks` where the table has no costs and each benchmark counts one.
        points: the front.
        scored: subsets scored on the way.
        holdout: what the errors leave out together, `model` or `family`.

    Example:
        >>> from eevee import load_table
        >>> front = pareto(load_table("gate"), largest=2, generations=1)
        >>> front.unit, front.points[0].cost
        ('benchmarks', 1.0)
    """

    table: str
    data_hash: str
    scorer: str
    objective: str
    seed: int
    unit: str
    points: tuple[FrontPoint, ...]
    scored: int
    holdout: str = "model"

    def _rows(self) -> list[dict[str, Any]]:
        return [{**plain_data(point), "benchmarks": ",".join(point.benchmarks)} for point in self.points]


class _Both(Lowest):
    """Error and cost, both to be low."""

    weights = (-1.0, -1.0)


@whole_numbers("largest", "seed", "population", "generations", error=EeveeError)
def pareto(
    table: ResultTable,
    *,
    largest: int = 12,
    scorer: Scorer | str | None = None,
    objective: str | None = None,
    holdout: str = "model",
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    one_per_family: bool = False,
    seed: int = 0,
    population: int = 100,
    generations: int = 40,
    progress: Progress | None = None,
) -> ParetoFront:
    """Search the front of error against cost.

    The start holds greedy + swap's subset of every size up to `largest` and random subsets; the front is taken
    over everything that was scored.

    Args:
        table: the results; without any cost each benchmark counts one.
        largest: largest size of a subset, 1 or more; the number of benchmarks to choose from where that is lower.
        scorer: the meta-model, its name or `auto`; ridge by default.
        objective: as for `select`.
        holdout: `model`, or `family`: errors are of models of whose family none was learnt from.
        include: ids in every subset.
        exclude: ids in none.
        one_per_family: at most one of each family.
        seed: of the search.
        population: subsets kept at each generation.
        generations: of NSGA-II.
        progress: called after each size.

    Raises:
        EeveeError: costs for some benchmarks only, constraints that cannot be met, or a `holdout` of other kind.

    Example:
        >>> from eevee import load_table
        >>> front = pareto(load_table("gate"), largest=3, generations=2)
        >>> [len(point.benchmarks) for point in front.points]
        [1, 2, 3]
    """
    require_table(table)
    if largest < 1:
        raise EeveeError(f"largest is {largest}; expected at least 1")
    data_hash, table = table.hash, left_out_together(table, holdout)
    priced = any(benchmark.cost is not None for benchmark in table.benchmarks)
    costs = table.costs if priced else dict.fromkeys(table.benchmark_ids, 1.0)
    price = [costs[key] for key in table.benchmark_ids]
    samples = (
        sample_subsets(table, Space(table, Constraints(k=min(4, len(table.benchmarks)))), seed)
        if scorer == AUTO
        else []
    )
    meta, _ = resolve_scorer(scorer, table, samples, objective)
    evaluate = Evaluator(meta, standardise(table))
    rules = Constraints(include=tuple(include), exclude=tuple(exclude), one_per_family=one_per_family)
    generator = random.Random(int(seed))
    free = Space(table.with_costs(costs), replace(rules, budget=math.inf))
    largest = min(largest, len(free.pool))
    start: list[Candidate] = []
    for k in range(max(1, len(tuple(include))), largest + 1):
        try:
            space = Space(table, replace(rules, k=k))
        except EeveeError:
            if k == max(1, len(tuple(include))):
                raise
            break
        start.append(greedy(evaluate, space, swap=True).best)
        start += [space.draw(generator) for _ in range(max(1, population // largest))]
        if progress is not None:
            progress("sizes", k, largest)
    box = base.Toolbox()
    box.register("mutate", lambda parent: free.mutated(tuple(parent), generator))
    box.register("evaluate", evaluate)
    box.register("select", tools.selNSGA2)

    def judged(candidates: Sequence[Candidate]) -> list[Individual]:
        plain = [c for c in dict.fromkeys(candidates) if len(c) <= largest]
        subsets = [Individual(c, _Both()) for c in plain]
        for subset, error in zip(subsets, box.evaluate(plain), strict=True):
            subset.fitness.values = (error, sum(price[i] for i in subset))
        return subsets

    best = box.select(judged(start), population)
    for _ in range(generations):
        children = [box.mutate(parent) for parent in best for _ in range(2)]
        best = box.select(judged([*(tuple(parent) for parent in best), *children]), population)
    ids = table.benchmark_ids
    points = []
    lowest = math.inf
    ranked = sorted(
        (sum(price[i] for i in c), error, c) for c, (error, _) in evaluate.cache.items() if free.feasible(c)
    )
    for cost, error, candidate in ranked:
        if error < lowest and len(candidate) <= largest:
            lowest = error
            names = tuple(ids[i] for i in candidate)
            points.append(FrontPoint(names, error, evaluate.stderr(candidate), cost))
    unit = "cost" if priced else COUNTED
    scored = len(evaluate.cache)
    return ParetoFront(table.name, data_hash, meta.name, meta.objective, seed, unit, tuple(points), scored, holdout)


def tiers(
    table: ResultTable, budgets: Mapping[str, float], *, grow: bool = False, **settings: object
) -> dict[str, Selection]:
    """A selection for each budget, such as the paper's 12, 24 and 36 GPU hours.

    Args:
        table: the results, with a cost for every benchmark in the budgets' unit.
        budgets: for each tier's name its budget.
        grow: every tier contains the next smaller one.
        settings: of `select`.

    Raises:
        EeveeError: a benchmark without cost, or a budget that nothing fits (the cheapest feasible cost is named).

    Example:
        >>> from eevee import load_table
        >>> table = load_table("gate")
        >>> costs = table.with_costs(dict.fromkeys(table.benchmark_ids, 1.0))
        >>> chosen = tiers(costs, {"small": 2, "base": 4}, method="greedy", nested=False, randoms=20)
        >>> {name: len(tier.benchmarks) for name, tier in chosen.items()}
        {'small': 2, 'base': 4}

    Source: section 9 of the EEVEE paper: 12, 24 and 36 A100 hours. It prints no hours for a single benchmark.
    """
    require_table(table)
    chosen: dict[str, Selection] = {}
    table.costs  # noqa: B018  # complains about a missing cost before any search
    previous: tuple[str, ...] = ()
    for name, budget in sorted(budgets.items(), key=lambda item: item[1]):
        extra = {"include": previous} if grow and previous else {}
        chosen[name] = select(table, budget=budget, **{**settings, **extra})  # type: ignore[arg-type]  # the caller's settings
        previous = chosen[name].benchmarks
    return chosen
