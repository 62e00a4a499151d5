"""How many samples a benchmark will have, and some of them, without making or reading them all."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from gate_data.data import Data
from gate_data.request import Size
from gate_runner.benchmarks import DataRequest
from gate_runner.runs.estimated import chosen_of
from gate_runner.runs.part import Part


class Counted(NamedTuple):
    """Some samples of a benchmark, and how many there will be.

    Args:
        data: at most so many samples in each split as were asked for.
        samples: in the training, validation and test split of the run; of the last, the chosen ones where `--items`
            chose.
        seconds: to make or read all of them, where that is done before encoding.
    """

    data: Data[Any]
    samples: tuple[int, int, int]
    seconds: float


@dataclass(frozen=True)
class _Noting(DataRequest):
    """A request that notes how many samples a source would make without a limit."""

    noted: list[int] = field(default_factory=list)

    def cap(self, count: int) -> int:
        self.noted.append(count)
        return super().cap(count)


def count(part: Part, few: int, size: Size) -> Counted:
    """Load a few samples of each split and find out how many the run will load.

    Sources that make their samples ask the request how many to make, and are asked for few; the time grows with the
    number. All others are asked for as many as the run.
    """
    most, chosen = part.settings.limit, chosen_of(part)
    tested = None if chosen is None else len(chosen.items)
    limit = few if most is None else min(few, most)
    noting = _Noting(part.settings.data_root, limit, size, part.settings.skip_unreadable)
    start = time.perf_counter()
    data = part.benchmark.load(part.source, noting)
    seconds = time.perf_counter() - start
    run = part.request(size)
    sizes = (len(data.train), len(data.validation), len(data.test))
    if noting.noted:
        counts = [run.cap(number) for number in noting.noted]
        samples = (counts[0], counts[1], counts[2]) if len(counts) == 3 else (0, 0, counts[-1])
        return Counted(data, (*samples[:2], tested or samples[2]), seconds * sum(samples) / max(1, sum(sizes)))
    start = time.perf_counter()
    data_of_all = part.benchmark.load(part.source, run)
    samples = (len(data_of_all.train), len(data_of_all.validation), len(data_of_all.test))
    return Counted(data_of_all.limited(limit), (*samples[:2], tested or samples[2]), time.perf_counter() - start)


def shortened(part: Part, steps: int) -> Part:
    """The same part with a training of a few steps, validated at its start and its end only."""
    training = {**part.benchmark.training}
    if "steps" in training:
        training["steps"] = steps
    if "validate_every" in training:
        training["validate_every"] = steps
    return replace(part, benchmark=replace(part.benchmark, training=training))
