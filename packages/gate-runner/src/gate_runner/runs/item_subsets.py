"""Scoring chosen test samples alone, and the whole split's score that they tell."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gate_data.ragged import Ragged
from gate_runner.errors import UsageError
from gate_runner.settings.items import place_of
from gate_runner.tasks.registry import find_task_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from eevee import AdaptiveTest
    from eevee.items.subset import BenchmarkItems
    from gate_data.data import Data
    from gate_runner.runs.results import Result
    from gate_runner.runs.unit import EvalUnit
    from gate_runner.tasks.job import Job, Outcome

ESTIMATED = "estimated from"
"""Begins the note of a score that was estimated from chosen items."""
_ROUNDING = 1e-3


def chosen_of(part: EvalUnit) -> BenchmarkItems | None:
    """What `--items` chose of a part's benchmark; None where all its test samples are to be scored."""
    chosen = part.settings.items
    if chosen is None or not find_task_type(part.benchmark.task).single_samples:
        return None
    return chosen.of(part.name)


def is_adaptive(part: EvalUnit) -> bool:
    """Whether a part's samples are asked by blocks until its score is known."""
    items = part.settings.items
    if items is None or not items.adaptive or not find_task_type(part.benchmark.task).single_samples:
        return False
    return not items.names or items.of(part.name) is not None


def adaptive_test_of(part: EvalUnit, data: Data[Any]) -> AdaptiveTest | None:
    """The test that asks for a part's samples by blocks; None where they are not asked so."""
    from eevee import AdaptiveTest, adaptive_test

    if not is_adaptive(part):
        return None
    until, bank, items = part.settings.until, chosen_of(part), part.settings.items
    assert until is not None  # requests want both
    assert items is not None
    if bank is None:
        return AdaptiveTest(len(data.test), until=until / 100, level=items.level, seed=part.seed)
    _require_data(data, data.digest(), bank)
    return adaptive_test(bank, until=until / 100 * bank.unit, seed=part.seed)


def in_blocks(job: Job, test: AdaptiveTest, run: Callable[[Job], Outcome]) -> tuple[Outcome, str, dict[str, Any]]:
    """Score the samples that a test asks for, block by block, until it knows."""
    import torch

    order: list[int] = []
    outcomes: list[Outcome] = []
    units: list[tuple[float, float]] = []
    while block := test.next_block():
        job.progress("asked", len(order), test.most)
        subset = replace(job.data, test=job.data.test.take(torch.tensor(block)))
        outcome = run(replace(job, data=subset))
        samples, unit = _single_samples(outcome)
        test.tell(samples)
        units.append((float(samples.mean()), unit))
        order += block
        outcomes.append(outcome)
    last, estimate = outcomes[-1], test.known()
    _, unit = max(units)  # a block of which all is wrong does not tell what a score of 1 is called
    score = replace(last.scores[0], value=estimate.value * unit, low=estimate.low * unit, high=estimate.high * unit)
    joined: dict[str, Any] = {}
    for name in ("samples", "predicted", "confidence", "distributions"):
        blocks = [getattr(outcome, name) for outcome in outcomes]
        joined[name] = None if any(values is None for values in blocks) else np.concatenate(blocks)
    merged = replace(last, scores=(score,), **joined)
    note = (
        f"{ESTIMATED} {len(order)} of {test.total:,} test samples, asked in {len(outcomes)} blocks until known to ± "
        f"{100 * test.until:g} points, with a {100 * test.level:g} % interval that holds at every look"
    )
    counts = {"test": len(order), "test_whole": test.total, "test_items": order, "interval_level": test.level}
    return merged, note, counts


def interval_level(result: Result) -> float:
    """The level of a result's intervals: that of the choice of its samples where its score is estimated from some."""
    return float(result.data.get("interval_level", 0.95))


def samples_asked(result: Result) -> str:
    """Which test samples a result's outcomes are of: runs by blocks ask for others each time."""
    items = result.data.get("test_items")
    return "all" if items is None else ", ".join(map(str, items))


def _single_samples(outcome: Outcome) -> tuple[np.ndarray, float]:
    """The samples whose mean is the headline's value, and what a score of 1 is called."""
    score, samples = outcome.scores[0], outcome.samples
    if not isinstance(samples, Ragged) and samples.ndim == 1:
        mean = float(samples.mean())
        unit = min((1.0, 100.0), key=lambda unit: abs(mean - score.value / unit))
        if abs(mean - score.value / unit) <= _ROUNDING:
            return samples, unit
    raise UsageError(f"--items: {score.metric} is not the mean of one outcome for each test sample here")


def narrowed(data: Data[Any], digest: str, chosen: BenchmarkItems) -> Data[Any]:
    """The same data with the chosen test samples alone, in the order of `chosen.items`."""
    import torch

    _require_data(data, digest, chosen)
    return replace(data, test=data.test.take(torch.tensor(places(chosen))))


def _require_data(data: Data[Any], digest: str, chosen: BenchmarkItems) -> None:
    if chosen.digest != digest or chosen.total != len(data.test):
        raise UsageError(
            f"--items: chosen of {chosen.total} test samples of other data (sha256 {chosen.digest[:12]}), these are "
            f"{len(data.test)} (sha256 {digest[:12]}); run with the same source and --limit as the runs that they are "
            "chosen from"
        )


def places(chosen: BenchmarkItems) -> list[int]:
    """Positions of the chosen samples in the test split."""
    positions = [place_of(key) for key in chosen.items]
    return [position for position in positions if position is not None]


def in_full(part: EvalUnit, outcome: Outcome, data: Data[Any]) -> tuple[Outcome, str, dict[str, Any]]:
    """What a part's scores say of all test samples: its headline estimated from the chosen ones, with an interval."""
    from eevee import EeveeError, estimate

    items, chosen = part.settings.items, chosen_of(part)
    assert items is not None
    if chosen is None:
        return outcome, "all test samples scored: none of this benchmark are chosen", {}
    samples, _ = _single_samples(outcome)
    try:
        whole = estimate(chosen, dict(zip(chosen.items, samples.tolist(), strict=True)))
    except EeveeError as error:
        raise UsageError(f"--items: {error}") from None
    score = replace(outcome.scores[0], value=whole.value, low=whole.low, high=whole.high)
    counts = {"test_whole": len(data.test), "test_items": places(chosen), "interval_level": items.level}
    return replace(outcome, scores=(score,)), estimate_note(chosen, items.level), counts


def estimate_note(chosen: BenchmarkItems, level: float) -> str:
    """What a reader of the score must know."""
    return f"{ESTIMATED} {len(chosen.items)} chosen of {chosen.total:,} test samples, with a {100 * level:g} % interval"
