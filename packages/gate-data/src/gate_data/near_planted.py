"""Copies of known images, planted to see from which likeness on an encoder's features show a copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageEnhance

from gate_data.readers.decode import decode
from gate_data.readers.source import Source

_SIDE = 512
"""Pixels that a copied image has at most."""


class Planted(NamedTuple):
    """A copy of an image: the original's place among all, the copy's file, and what was changed."""

    original: int
    file: str
    change: str


def _cropped(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """The image without 5 % of both sides, cut off at a random corner."""
    wide, high = image.size
    across, down = round(0.05 * wide), round(0.05 * high)
    left, top = int(rng.integers(0, across + 1)), int(rng.integers(0, down + 1))
    return image.crop((left, top, left + wide - across, top + high - down))


CHANGES: Mapping[str, Callable[[Image.Image, np.random.Generator], Image.Image]] = {
    "jpeg 70": lambda image, rng: image,
    "crop 5 %": _cropped,
    "half size": lambda image, rng: image.resize((max(1, image.width // 2), max(1, image.height // 2))),
    "mirrored": lambda image, rng: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "brightness": lambda image, rng: ImageEnhance.Brightness(image).enhance(float(rng.choice([0.7, 1.3]))),
}
"""Names of changes, and what they do: one after another to the images that are copied."""


def plant(sources: Sequence[Source], folder: Path, count: int, seed: int = 0) -> list[Planted]:
    """Write copies of randomly drawn images as JPEG files.

    Args:
        sources: still images that can be read.
        folder: the copies are written to.
        count: copies, or as many as there are images.
        seed: of the draw.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> Image.new("RGB", (40, 30), "red").save(folder / "a.png")
        >>> [row.change for row in plant([str(folder / "a.png")], folder, 5)]
        ['jpeg 70']
    """
    rng = np.random.default_rng(seed)
    planted = []
    for number, original in enumerate(rng.permutation(len(sources))[:count]):
        change = list(CHANGES)[number % len(CHANGES)]
        file = str(folder / f"copy{number}.jpg")
        copy = CHANGES[change](decode(sources[original], _SIDE).convert("RGB"), rng)
        copy.save(file, quality=70 if change == "jpeg 70" else 90)
        planted.append(Planted(int(original), file, change))
    return planted
