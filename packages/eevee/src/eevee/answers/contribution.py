"""What each benchmark contributes: leave-one-out importance, single predictiveness, error against k."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eevee.errors import EeveeError
from eevee.scorers.ridge import RidgeScorer
from eevee.searching.evaluation import Evaluator
from eevee.searching.search import search
from eevee.searching.space import Constraints, Space
from eevee.tables.standard import standardise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eevee.scorers.scorer import Scorer
    from eevee.tables.table import ResultTable


def importance(table: ResultTable, benchmarks: Sequence[str], *, scorer: Scorer | None = None) -> dict[str, float]:
    """Rise of the error when each member is left out and the meta-model fitted again; most important first.

    Args:
        table: the results.
        benchmarks: ids of the subset. A single member is compared with predicting the mean of the other models.
        scorer: the meta-model, ridge by default.

    Example:
        >>> from eevee import load_table
        >>> list(importance(load_table("gate"), ["acdc", "coco-164k"]))
        ['coco-164k', 'acdc']

    Source: figure 4 of the EEVEE paper.
    """
    meta = scorer or RidgeScorer()
    data = standardise(table)
    chosen = table.positions(benchmarks)
    without = [tuple(i for i in chosen if i != out) for out in chosen]
    full = float(meta.score(data, [chosen])[0, 0])
    errors = [float(error) for error in meta.score(data, without)[:, 0]]
    rises = {table.benchmark_ids[out]: error - full for out, error in zip(chosen, errors, strict=True)}
    return dict(sorted(rises.items(), key=lambda item: -item[1]))


def predictiveness(table: ResultTable, *, scorer: Scorer | None = None) -> dict[str, float]:
    """Error of each benchmark alone, the most predictive first.

    Example:
        >>> from eevee import load_table
        >>> list(predictiveness(load_table("gate")))[-1]
        'winoground'

    Source: figure 3 of the EEVEE paper.
    """
    meta = scorer or RidgeScorer()
    errors = meta.score(standardise(table), [(i,) for i in range(len(table.benchmarks))])[:, 0]
    alone = {key: float(error) for key, error in zip(table.benchmark_ids, errors, strict=True)}
    return dict(sorted(alone.items(), key=lambda item: item[1]))


def error_against_k(
    table: ResultTable,
    sizes: Sequence[int],
    *,
    scorer: Scorer | None = None,
    method: str = "evolution",
    seed: int = 0,
    generations: int = 20,
) -> dict[int, tuple[float, ...]]:
    """Errors of the best candidates (up to 50) of a search at each size, lowest first.

    Example:
        >>> from eevee import load_table
        >>> errors = error_against_k(load_table("gate"), [1, 4], method="greedy")
        >>> errors[4][0] < errors[1][0]
        True

    Source: figure 5 of the EEVEE paper.
    """
    meta = scorer or RidgeScorer()
    data = standardise(table)
    if not sizes:
        raise EeveeError("no sizes are given; expected at least one k")
    out = {}
    for k in sizes:
        space = Space(table, Constraints(k=k))
        result = search(method, Evaluator(meta, data), space, seed=seed, generations=generations)
        out[k] = tuple(error for _, error in result.winners)
    return out
