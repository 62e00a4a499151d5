"""The part of a pack that fits a time and tells the most about the rest of GATE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gate_runner.errors import UsageError

_EXHAUSTIVE = 16
"""Benchmarks up to which every subset is looked at."""


@dataclass(frozen=True)
class Choice:
    """A subset that fits a time.

    Args:
        benchmarks: the chosen ids, in the order in which they were given.
        left_out: those that the time does not allow.
        unjudged: those among the left out that the table does not know, so that nothing says what they would tell.
        error: of the rest of GATE's table, predicted from the chosen (standardised; lower is better); None where
            everything fits, and nothing had to be chosen.
        random_error: the mean of random subsets that fit.

    Example:
        >>> Choice(("digits", "cifar100"), left_out=("ade20k",)).left_out
        ('ade20k',)
    """

    benchmarks: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()
    error: float | None = None
    random_error: float | None = None


def best_subset(seconds: Mapping[str, float], budget: float) -> Choice:
    """Choose among benchmarks by what they cost and what they tell.

    Every benchmark stays where all fit. Otherwise, of the subsets that fit, the one is chosen from whose scores
    EEVEE's ridge meta-model best predicts the scores on all thirty benchmarks of GATE's published table, measured on
    models that it was not fitted on.

    Args:
        seconds: of each benchmark, > 0.
        budget: seconds for all of them together, > 0.

    Returns:
        The choice.

    Raises:
        UsageError: not even the cheapest benchmark of the table fits; the message says what it takes.

    Example:
        >>> best_subset({"cifar100": 30.0, "mini": 20.0}, 60.0).benchmarks
        ('cifar100', 'mini')
        >>> best_subset({"cifar100": 30.0, "mini": 20.0}, 25.0).benchmarks
        ('mini',)

    Source: EEVEE, section 3, with a budget in place of the number of benchmarks; the table is the paper's table 2,
        as `eevee` ships it. Stand-ins bear a data set's task, not its scores: for them the choice is a default.
    """
    ids = list(seconds)
    if sum(seconds.values()) <= budget:
        return Choice(tuple(ids))
    import eevee

    table = eevee.load_table("gate")
    names = [name for name in ids if name in table.benchmark_ids]
    unjudged = tuple(name for name in ids if name not in table.benchmark_ids)
    if not names or min(seconds[name] for name in names) > budget:
        cheapest = min(names or ids, key=lambda name: seconds[name])
        raise UsageError(
            f"no benchmark of GATE's table fits {budget:.0f} s besides the start; the cheapest, {cheapest}, takes "
            f"{seconds[cheapest]:.0f} s"
        )
    priced = replace(
        table, benchmarks=tuple(replace(row, cost=float(seconds.get(row.id, 0.0))) for row in table.benchmarks)
    )
    chosen = eevee.select(
        priced,
        budget=budget,
        exclude=[name for name in table.benchmark_ids if name not in names],
        method="exhaustive" if len(names) <= _EXHAUSTIVE else "greedy-swap",
        randoms=200,
        nested=False,
    )
    members = set(chosen.benchmarks)
    return Choice(
        tuple(name for name in ids if name in members),
        tuple(name for name in ids if name not in members),
        unjudged,
        float(chosen.error),
        float(chosen.random_error),
    )
