"""`score`: how good a given subset is, beside random ones and greedy + swap's."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eevee.answers.evaluation import importance, prediction_agreement, subset_mean_agreement, unmeasured_error
from eevee.answers.scorer_choice import Choice, resolve_scorer
from eevee.errors import EeveeError
from eevee.searching.search import Evaluator, search
from eevee.searching.space import Constraints, Space
from eevee.tables.holdout import left_out_together
from eevee.tables.serialization import Recorded
from eevee.tables.standard import standardise
from wary_files.errors import whole_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eevee.scorers.scorer import Scorer
    from eevee.searching.space import Candidate
    from eevee.tables.table import ResultTable


@dataclass(frozen=True)
class Rival:
    """Another searcher's subset, for comparison."""

    method: str
    benchmarks: tuple[str, ...]
    error: float
    asked: int


@dataclass(frozen=True, kw_only=True)
class Judged(Recorded):
    """The error of a subset, given or chosen, and what it compares with."""

    table: str  # its name
    data_hash: str  # of the table
    scorer: str  # the meta-model
    objective: str  # what the error measures
    seed: int  # of everything random
    benchmarks: tuple[str, ...]  # the subset's ids, in the table's order
    error: float  # of the cells that the objective counts
    stderr: float  # its standard error over models
    unmeasured: float  # leave-one-out error of the cells outside the subset, which its user does not measure
    unmeasured_stderr: float  # its standard error over models
    choice: Choice | None  # what leave-one-out compared, where it chose the scorer
    better_randoms: float  # share of random feasible subsets with a lower error
    randoms: int  # how many random subsets that counts
    random_error: float  # their mean error
    rival: Rival  # greedy + swap's subset (plain greedy's where greedy + swap itself chose)
    importance: dict[str, float]  # rise of the error without each member (the paper's figure 4)


def judge_subset(
    table: ResultTable,
    space: Space,
    evaluate: Evaluator,
    chosen: Candidate,
    choice: Choice | None,
    *,
    seed: int,
    randoms: int,
    rival_method: str = "greedy-swap",
) -> dict[str, Any]:
    """The fields of `Judged` for a subset that was scored already."""
    error = evaluate([chosen])[0]
    generator = random.Random(int(seed) + 1)
    sample = evaluate([space.draw(generator) for _ in range(randoms)])
    rival = search(rival_method, evaluate, space, seed=seed)
    outside = unmeasured_error(evaluate.scorer, evaluate.data, chosen)
    ids = table.benchmark_ids
    return {
        "table": table.name,
        "data_hash": table.hash,
        "scorer": evaluate.scorer.name,
        "objective": evaluate.scorer.objective,
        "seed": seed,
        "benchmarks": tuple(ids[i] for i in chosen),
        "error": error,
        "stderr": evaluate.stderr(chosen),
        "unmeasured": outside[0],
        "unmeasured_stderr": outside[1],
        "choice": choice,
        "better_randoms": sum(random_error < error for random_error in sample) / len(sample),
        "randoms": len(sample),
        "random_error": sum(sample) / len(sample),
        "rival": Rival(rival_method, tuple(ids[i] for i in rival.best), rival.error, rival.asked),
        "importance": importance(table, [ids[i] for i in chosen], scorer=evaluate.scorer),
    }


def require_randoms(randoms: int) -> None:
    """Refuse to compare with no random subset at all."""
    if randoms < 1:
        raise EeveeError(f"randoms {randoms}; expected at least 1")


@dataclass(frozen=True, kw_only=True)
class Score(Judged):
    """The error of a given subset and what it compares with.

    `error` ± `stderr` is of the cells that the objective counts, `unmeasured` ± `unmeasured_stderr` leave-one-out's of
    those outside the subset; `better_randoms` of `randoms` random subsets, whose mean is `random_error`, are better;
    `rival` is another searcher's subset, `importance` the rise of the error without each member.

    Args:
        mean_agreement: Kendall's tau of the ranking by the subset's mean with that by all metrics.
        prediction_agreement: the same for the ranking by predictions, each model held out.
        holdout: what the errors leave out together, `model` or `family`.

    Example:
        >>> from eevee import load_table
        >>> judged = score(load_table("gate"), ["mini", "ucf"], randoms=50)
        >>> judged.benchmarks, judged.error < 1
        (('ucf', 'mini'), True)
    """

    mean_agreement: float
    prediction_agreement: float
    holdout: str = "model"


@whole_numbers("seed", "randoms", error=EeveeError)
def score(
    table: ResultTable,
    benchmarks: Sequence[str],
    *,
    scorer: Scorer | str | None = None,
    objective: str | None = None,
    holdout: str = "model",
    seed: int = 0,
    randoms: int = 1000,
) -> Score:
    """Score a subset.

    Args:
        table: results of models on all benchmarks.
        benchmarks: ids of the subset.
        scorer: the meta-model, its name or `auto`; `RidgeScorer()` by default.
        objective: as for `select`.
        holdout: `model`, or `family`: errors are of models of whose family none was learnt from.
        seed: of the random subsets.
        randoms: how many.

    Example:
        >>> from eevee import load_table, published
        >>> small = score(load_table("gate"), published().tiers["small"])
        >>> small.better_randoms > 0.5
        True
    """
    require_randoms(randoms)
    data_hash, table = table.hash, left_out_together(table, holdout)
    chosen = table.positions(benchmarks)
    meta, choice = resolve_scorer(scorer, table, [chosen], objective)
    space = Space(table, Constraints(k=len(chosen)))
    evaluate = Evaluator(meta, standardise(table))
    judged = judge_subset(table, space, evaluate, chosen, choice, seed=seed, randoms=randoms)
    return Score(
        **{**judged, "data_hash": data_hash},
        holdout=holdout,
        mean_agreement=subset_mean_agreement(table, benchmarks),
        prediction_agreement=prediction_agreement(table, benchmarks, meta),
    )
