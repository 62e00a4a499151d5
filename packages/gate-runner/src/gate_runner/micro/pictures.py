"""From scenes to the noisy ``uint8`` images that the stand-ins use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int8, UInt8
from torch import Tensor

from eqben_builder.micro import Scene, generator_at, render

_CHUNK = 256


class Pictures(NamedTuple):
    """Images, and for each pixel which item is the visible one (0 is background, i + 1 is item i)."""

    images: UInt8[Tensor, "n 3 s s"]
    visible: Int8[Tensor, "n s s"]


def draw(
    scenes: Sequence[Scene], seed: int, *, size: int = 64, noise: float = 0.0, numbers: Sequence[int] | None = None
) -> Pictures:
    """Render scenes and add sensor noise."""
    images = torch.empty(len(scenes), 3, size, size, dtype=torch.uint8)
    visible = torch.empty(len(scenes), size, size, dtype=torch.int8)
    numbers = range(len(scenes)) if numbers is None else numbers
    for start in range(0, len(scenes), _CHUNK):
        part = scenes[start : start + _CHUNK]
        drawn = render(part, size)
        pixels = drawn.images
        if noise > 0:
            pixels = np.stack(
                [with_noise(image, noise, generator_at(seed, numbers[start + i])) for i, image in enumerate(pixels)]
            )
        images[start : start + len(part)] = torch.from_numpy(pixels).permute(0, 3, 1, 2)
        visible[start : start + len(part)] = torch.from_numpy(drawn.visible)
    return Pictures(images, visible)


def with_noise(
    image: UInt8[np.ndarray, "*n s s 3"], noise: float, rng: np.random.Generator
) -> UInt8[np.ndarray, "*n s s 3"]:
    """Gaussian noise on every channel, and one change of brightness for the image (or clip)."""
    grain: Float[np.ndarray, ...] = rng.standard_normal(image.shape, dtype=np.float32)
    shift = 0.5 * noise * float(rng.standard_normal())
    noisy = image.astype(np.float32) + 255 * (noise * grain + shift)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def scenes_of(seed: int, count: int, make: Callable[[np.random.Generator, int], Scene]) -> list[Scene]:
    """Scene i from a generator of its own, so that a list of 10 begins like a list of 1,000."""
    return [make(generator_at(seed, index), index) for index in range(count)]
