"""Drawn sets as benchmarks' data: synthetic, and never called by the name of the data set whose place they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from eqben_builder.stand_ins.data import DrawnSet, DrawnSplit
from eqben_builder.stand_ins.registry import STAND_INS
from gate_data.boxes.objects import Objects
from gate_data.data import Data, Split
from gate_data.request import DataRequest

NOTE = "synthetic stand-in"
"""What data and results say of themselves."""


def as_data(drawn: DrawnSet) -> Data[Any]:
    """Return tensors for arrays, images with their channels first."""
    train, validation, test = map(_as_split, (drawn.train, drawn.validation, drawn.test))
    return Data(train, validation, test, drawn.classes, NOTE)


def _as_split(drawn: DrawnSplit) -> Split[Any]:
    images = torch.from_numpy(drawn.images).movedim(-1, -3).contiguous()
    groups = None if drawn.groups is None else torch.from_numpy(drawn.groups)
    if isinstance(drawn.targets, tuple):
        side = images.shape[-1]
        boxes = Objects.of([boxes._asdict() for boxes in drawn.targets], [(side, side)] * len(drawn))
        return Split(images, boxes, drawn.texts, groups)
    return Split(images, torch.from_numpy(drawn.targets), drawn.texts, groups)


def __getattr__(name: str) -> Callable[[DataRequest], Data[Any]]:
    """Find ``gate_runner.stand_ins:birds`` and the like, which benchmarks name."""
    if name not in STAND_INS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return lambda request: as_data(STAND_INS[name](request.limit))
