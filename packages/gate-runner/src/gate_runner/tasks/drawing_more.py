"""Tested units with several labels, several captions or depths, as small pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from gate_data.data import Data
from gate_runner.tasks.drawing import shown
from gate_runner.tasks.task import Drawing


def labels(data: Data[Tensor], training: Mapping[str, Any], index: int) -> Drawing:
    """An image and the labels that it has."""
    there = [name for name, value in zip(data.classes, data.test.targets[index], strict=True) if bool(value)]
    return Drawing(shown(data.test.images[index]), f"true: {', '.join(there) or 'none'}")


def heads(data: Data[Tensor], training: Mapping[str, Any], index: int) -> Drawing:
    """An image and the class that each head should give."""
    of_head: dict[str, list[str]] = {}
    for name in data.classes:
        of_head.setdefault(name.partition("/")[0], []).append(name.partition("/")[2])
    chosen = zip(of_head.values(), data.test.targets[index].tolist(), strict=True)
    return Drawing(shown(data.test.images[index]), f"true: {', '.join(names[place] for names, place in chosen)}")


def captions(data: Data[Tensor], training: Mapping[str, Any], index: int) -> Drawing:
    """An image and its caption: the right one, or the first."""
    texts = data.test.texts or ()
    each = len(texts) // len(data.test)
    right = int(data.test.targets[index]) if data.classes else 0
    return Drawing(shown(data.test.images[index]), f"true: {texts[each * index + right]}")


def depth(data: Data[Tensor], training: Mapping[str, Any], index: int) -> Drawing:
    """An image beside its depths, the nearest bright; black where nothing was measured."""
    picture, metres = shown(data.test.images[index]), data.test.targets[index].numpy()
    side = picture.shape[0]
    rows = (np.arange(side) * metres.shape[0]) // side
    small = metres[rows][:, (np.arange(side) * metres.shape[1]) // side]
    near = np.where(small > 0, 255 * (1 - small / max(float(small.max()), 1e-6)) * 0.9 + 20, 0).astype(np.uint8)
    return Drawing(np.concatenate([picture, np.repeat(near[..., None], 3, axis=2)], axis=1), "image and depth")
