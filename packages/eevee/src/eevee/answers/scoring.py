"""`score`: how good a given subset is, beside random ones and greedy + swap's."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eevee.answers.choosing import resolve_scorer
from eevee.answers.judging import importance, prediction_agreement, subset_mean_agreement, unmeasured_error
from eevee.answers.selecting import Rival
from eevee.errors import EeveeError
from eevee.searching.evaluation import Evaluator
from eevee.searching.search import search
from eevee.searching.space import Constraints, Space
from eevee.tables.record import Recorded
from eevee.tables.standard import standardise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eevee.answers.choosing import Choice
    from eevee.scorers.scorer import Scorer
    from eevee.tables.table import ResultTable


@dataclass(frozen=True)
class Score(Recorded):
    """The error of a given subset and what it compares with.

    Args:
        table: name of the table.
        data_hash: its hash.
        scorer: meta-model.
        objective: what the error measures.
        seed: of the random subsets.
        benchmarks: the subset's ids.
        error: its error.
        stderr: standard error over models.
        unmeasured: leave-one-out error of the cells outside the subset.
        unmeasured_stderr: its standard error over models.
        choice: what leave-one-out compared, where it chose the scorer.
        better_randoms: share of random subsets of the same size with a lower error.
        randoms: how many that counts.
        random_error: their mean error.
        rival: greedy + swap's subset of the same size.
        importance: rise of the error without each member.
        mean_agreement: Kendall's tau of the ranking by the subset's mean with that by all metrics.
        prediction_agreement: the same for the ranking by predictions, each model held out.

    Example:
        >>> from eevee import load_table
        >>> judged = score(load_table("gate"), ["mini", "ucf"], randoms=50)
        >>> judged.benchmarks, judged.error < 1
        (('ucf', 'mini'), True)
    """

    table: str
    data_hash: str
    scorer: str
    objective: str
    seed: int
    benchmarks: tuple[str, ...]
    error: float
    stderr: float
    unmeasured: float
    unmeasured_stderr: float
    choice: Choice | None
    better_randoms: float
    randoms: int
    random_error: float
    rival: Rival
    importance: dict[str, float]
    mean_agreement: float
    prediction_agreement: float


def score(
    table: ResultTable,
    benchmarks: Sequence[str],
    *,
    scorer: Scorer | str | None = None,
    objective: str = "all",
    seed: int = 0,
    randoms: int = 1000,
) -> Score:
    """Score a subset.

    Args:
        table: results of models on all benchmarks.
        benchmarks: ids of the subset.
        scorer: the meta-model, its name or `auto`; `RidgeScorer()` by default.
        objective: of a scorer that is given by name.
        seed: of the random subsets.
        randoms: how many.

    Example:
        >>> from eevee import load_table, published
        >>> small = score(load_table("gate"), published().tiers["small"])
        >>> small.better_randoms > 0.5
        True
    """
    if randoms < 1:
        raise EeveeError(f"randoms {randoms}; expected at least 1")
    chosen = table.positions(benchmarks)
    meta, choice = resolve_scorer(scorer, table, [chosen], objective)
    space = Space(table, Constraints(k=len(chosen)))
    evaluate = Evaluator(meta, standardise(table))
    error = evaluate([chosen])[0]
    outside = unmeasured_error(meta, evaluate.data, chosen)
    generator = random.Random(seed + 1)
    sample = evaluate([space.draw(generator) for _ in range(randoms)])
    rival = search("greedy-swap", evaluate, space, seed=seed)
    ids = table.benchmark_ids
    return Score(
        table=table.name,
        data_hash=table.hash,
        scorer=meta.name,
        objective=meta.objective,
        seed=seed,
        benchmarks=tuple(ids[i] for i in chosen),
        error=error,
        stderr=evaluate.stderr(chosen),
        unmeasured=outside[0],
        unmeasured_stderr=outside[1],
        choice=choice,
        better_randoms=sum(e < error for e in sample) / len(sample),
        randoms=len(sample),
        random_error=sum(sample) / len(sample),
        rival=Rival("greedy-swap", tuple(ids[i] for i in rival.best), rival.error, rival.asked),
        importance=importance(table, [ids[i] for i in chosen], scorer=meta),
        mean_agreement=subset_mean_agreement(table, benchmarks),
        prediction_agreement=prediction_agreement(table, benchmarks, meta),
    )
