"""What a grid will take: cells, what they share, and about how long."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gate_runner.icinw.cells import Cell
from gate_runner.icinw.features import encoded_counts
from gate_runner.icinw.filling import Unit, missing
from gate_runner.icinw.request import GridRequest

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder

_FIT = 0.12
"""Seconds of one fit of a head, before any was measured."""


@dataclass(frozen=True)
class GridPlan:
    """What is to be done.

    Args:
        cells: all of the grid.
        units: cells that are missing, by the images that they see, in the order in which they are filled.
        auto: missing cells that choose among others.
        to_encode: data sets whose features are not there yet.
        seconds_per_image: of the encoder, measured here.
    """

    cells: tuple[Cell, ...]
    units: dict[Unit, list[Cell]]
    auto: tuple[Cell, ...]
    to_encode: tuple[str, ...]
    seconds_per_image: float

    @property
    def left(self) -> int:
        """Cells that are missing."""
        return sum(map(len, self.units.values())) + len(self.auto)

    def seconds(self, unit: Unit) -> float:
        """About how long a unit takes: trainings by the pictures that pass, fits by experience."""
        count = len(self.units[unit])
        if unit.tune == "full" and unit.shots != 0:
            return count * 350 * self.seconds_per_image
        return count * (0.02 if unit.shots == 0 else _FIT)

    def total(self, workers: int = 1) -> float:
        """About how long all of it takes."""
        encoding = 1000 * self.seconds_per_image * len(self.to_encode)
        return (encoding + sum(map(self.seconds, self.units))) / max(1, workers)

    def lines(self, workers: int = 1) -> list[str]:
        """The plan in words."""
        kinds: Counter[str] = Counter()
        for unit, cells in self.units.items():
            kind = "zero-shot" if unit.shots == 0 else "trainings" if unit.tune == "full" else "fits"
            kinds[kind] += len(cells)
        said = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
        total = self.total(workers)
        return [
            (
                f"{len(self.cells):,} cells, {self.left:,} to fill ({said or 'none computed'}; {len(self.auto):,} "
                f"chosen among others); {len(self.to_encode)} data sets to encode, each picture once"
            ),
            f"about {total / 60:.1f} minutes with {workers} at a time, before anything is shared",
        ]


def make_plan(request: GridRequest, encoder: Encoder) -> GridPlan:
    """Lay out a grid; pictures are neither read nor made.

    Args:
        request: what is asked for.
        encoder: whose speed is measured on a few grey pictures.

    Returns:
        The plan, with what the run folder lacks.
    """
    metrics = {dataset.id: dataset.metric for dataset in request.sets()}
    cells = [cell for dataset in metrics for cell in request.axes.cells(dataset)]
    lacking = [cell for cell in cells if missing(request, cell, metrics[cell.dataset])]
    units: dict[Unit, list[Cell]] = {}
    for cell in lacking:
        if cell.knowledge != "auto":
            units.setdefault(Unit(cell.dataset, cell.shots, cell.tune, cell.seed), []).append(cell)
    auto = tuple(cell for cell in lacking if cell.knowledge == "auto")
    to_encode = tuple(
        one.id
        for one in request.sets()
        if len(encoded_counts(request.output / "features" / one.id / "encoded.json")) < 2
        and any(unit.dataset == one.id for unit in units)
    )
    return GridPlan(tuple(cells), units, auto, to_encode, _speed(encoder) if units else 0.0)


def _speed(encoder: Encoder) -> float:
    grey = torch.full((8, 3, encoder.image_size, encoder.image_size), 128, dtype=torch.uint8)
    times: Sequence[float] = []
    for _ in range(2):
        start = time.perf_counter()
        encoder.encode_image(grey)
        times = [*times, time.perf_counter() - start]
    return min(times) / len(grey)
