"""What the newer stand-ins share: three splits from a recipe for one sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from eqben_builder.micro import Scene, generator_at
from gate_data.data import Data, Split
from gate_data.request import DataRequest, SplitName
from gate_runner.micro.pictures import draw, with_noise
from gate_runner.micro.seeds import NOTE, split_seed

SPLITS: tuple[SplitName, ...] = ("train", "validation", "test")
SIDE = 64


class Made(NamedTuple):
    """One sample: a scene to render or finished pixels, its target, and its texts."""

    look: Scene | UInt8[np.ndarray, "*f s s 3"]
    target: object
    texts: tuple[str, ...] = ()


Make = Callable[[np.random.Generator, int], Made]


def data_of(
    name: str,
    request: DataRequest,
    counts: tuple[int, int, int],
    make: Callable[[SplitName], Make] | Make,
    classes: Sequence[str],
    *,
    noise: float = 0.05,
    by_split: bool = False,
    value: torch.dtype = torch.long,
) -> Data:
    """Three splits, sample i of each from a generator of its own, whatever the limit."""

    def split(part: SplitName, count: int) -> Split:
        seed = split_seed(name, part)
        make_sample: Make = make(part) if by_split else make  # type: ignore[call-arg, arg-type, assignment]  # by_split says which it is
        samples = [make_sample(generator_at(seed, index), index) for index in range(request.cap(count))]
        texts = tuple(text for sample in samples for text in sample.texts)
        return Split(
            _pixels([sample.look for sample in samples], seed, noise),
            torch.tensor(np.array([sample.target for sample in samples])).to(value),
            texts or None,
        )

    splits = [split(part, count) for part, count in zip(SPLITS, counts, strict=True)]
    return Data(splits[0], splits[1], splits[2], tuple(classes), NOTE)


def _pixels(looks: list[Scene | np.ndarray], seed: int, noise: float) -> UInt8[Tensor, "n *f 3 s s"]:
    if isinstance(looks[0], Scene):
        return draw([look for look in looks if isinstance(look, Scene)], seed, noise=noise).images
    noisy = [
        with_noise(look, noise, generator_at(seed, 500_000 + index))
        for index, look in enumerate(looks)
        if isinstance(look, np.ndarray)
    ]
    return torch.from_numpy(np.stack(noisy)).movedim(-1, -3).contiguous()


def coordinates() -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the pixels' centres, from 0 to 1."""
    rows, columns = (np.mgrid[:SIDE, :SIDE] + 0.5) / SIDE
    return rows, columns


def as_pixels(values: np.ndarray) -> UInt8[np.ndarray, "s s 3"]:
    """Grey or coloured values from 0 to 1."""
    coloured = np.repeat(values[..., None], 3, axis=-1) if values.ndim == 2 else values
    rounded: UInt8[np.ndarray, "s s 3"] = np.clip(np.rint(coloured * 255), 0, 255).astype(np.uint8)
    return rounded
