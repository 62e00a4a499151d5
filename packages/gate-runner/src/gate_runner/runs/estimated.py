"""Scoring chosen test samples alone, and the whole split's score that they tell."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gate_data.ragged import Ragged
from gate_runner.errors import UsageError
from gate_runner.items import place_of
from gate_runner.tasks.registry import find_task_type

if TYPE_CHECKING:
    from eevee.items.choosing import BenchmarkItems
    from gate_data.data import Data
    from gate_runner.runs.part import Part
    from gate_runner.tasks.job import Outcome
    from gate_runner.tasks.score import Score

ESTIMATED = "estimated from"
"""Begins the note of a score that was estimated from chosen items."""
_ROUNDING = 1e-3


def chosen_of(part: Part) -> BenchmarkItems | None:
    """What `--items` chose of a part's benchmark; None where all its test samples are to be scored."""
    chosen = part.settings.items
    if chosen is None or not find_task_type(part.benchmark.task).single_samples:
        return None
    return chosen.of(part.name)


def narrowed(data: Data[Any], digest: str, chosen: BenchmarkItems) -> Data[Any]:
    """The same data with the chosen test samples alone, in the order of `chosen.items`.

    Args:
        data: all three splits, whole.
        digest: of them.
        chosen: positions in the test split.

    Raises:
        UsageError: the items were chosen on other data, or with another limit; the message shows both.
    """
    import torch

    if chosen.digest != digest or chosen.total != len(data.test):
        raise UsageError(
            f"--items: chosen of {chosen.total} test samples of other data (sha256 {chosen.digest[:12]}), these are "
            f"{len(data.test)} (sha256 {digest[:12]}); run with the same source and --limit as the runs that they are "
            "chosen from"
        )
    return replace(data, test=data.test.take(torch.tensor(places(chosen))))


def places(chosen: BenchmarkItems) -> list[int]:
    """Positions of the chosen samples in the test split."""
    found = [place_of(key) for key in chosen.items]
    return [place for place in found if place is not None]


def whole_score(outcome: Outcome, chosen: BenchmarkItems) -> Score:
    """The headline's value for all test samples, with its interval, from the chosen samples' outcomes.

    Args:
        outcome: of the chosen samples, in their order.
        chosen: how their outcomes stand for all.

    Raises:
        UsageError: the headline is not the mean of one number from 0 to 1 for each sample.
    """
    from eevee import EeveeError, estimate

    score, samples = outcome.scores[0], outcome.samples
    mean = float("nan") if isinstance(samples, Ragged) or samples.ndim > 1 else float(samples.mean()) * chosen.unit
    if isinstance(samples, Ragged) or not abs(mean - score.value) <= _ROUNDING * chosen.unit:
        raise UsageError(f"--items: {score.metric} is not the mean of one outcome for each test sample here")
    try:
        found = estimate(chosen, dict(zip(chosen.items, samples.tolist(), strict=True)))
    except EeveeError as error:
        raise UsageError(f"--items: {error}") from None
    return replace(score, value=found.value, low=found.low, high=found.high)


def in_full(part: Part, outcome: Outcome, whole: Data[Any]) -> tuple[Outcome, str, dict[str, Any]]:
    """What a part's scores say of all test samples.

    Args:
        part: what was computed.
        outcome: of its samples, chosen or all.
        whole: its data, not narrowed.

    Returns:
        The outcome with the estimated headline alone where samples were chosen, what a reader of it must know, and what
        the result says of its data besides. The same outcome and nothing where `--items` was not given.

    Raises:
        UsageError: see `whole_score`.
    """
    items, chosen = part.settings.items, chosen_of(part)
    if items is None:
        return outcome, "", {}
    if chosen is None:
        return outcome, "all test samples scored: none of this benchmark are chosen", {}
    told = {"test_whole": len(whole.test), "test_items": places(chosen)}
    return replace(outcome, scores=(whole_score(outcome, chosen),)), said_of(chosen, items.level), told


def said_of(chosen: BenchmarkItems, level: float) -> str:
    """What a reader of the score must know.

    Example:
        >>> from types import SimpleNamespace
        >>> said_of(SimpleNamespace(items=("test/0", "test/7"), total=40), 0.9)
        'estimated from 2 chosen of 40 test samples, with a 90 % interval'
    """
    return f"{ESTIMATED} {len(chosen.items)} chosen of {chosen.total:,} test samples, with a {100 * level:g} % interval"
