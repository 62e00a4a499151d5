"""Pictures of the test that nearly repeat one of training: scaled, recompressed, a little brighter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eqben_builder.duplicates import bits_apart, perceptual_hash
from gate_data.readers import Source, Stored
from gate_data.readers.clips import read_clip
from gate_data.readers.decode import decode
from gate_data.readers.source import Clip, described
from gate_runner.errors import DataError

if TYPE_CHECKING:
    from jaxtyping import Int, UInt64

_SIDE = 64
_BLOCK = 1 << 22
_FLAT = 4.0
"""Standard deviation of grey values below which a picture shows too little to be told from another."""


class Near(NamedTuple):
    """Two pictures of different splits that are nearly the same.

    Args:
        split: of the first.
        picture: its place.
        other_split: of the second.
        other_picture: its place.
        bits: in which their 64-bit hashes differ.

    Example:
        >>> str(Near("test", "b.jpg", "train", "a.png", 2))
        'b.jpg of test is nearly a.png of train (2 of 64 bits differ)'
    """

    split: str
    picture: str
    other_split: str
    other_picture: str
    bits: int

    def __str__(self) -> str:
        pair = f"{self.picture} of {self.split} is nearly {self.other_picture} of {self.other_split}"
        return f"{pair} ({self.bits} of 64 bits differ)"


def near_duplicates(sides: Mapping[str, Sequence[Source]], bits: int) -> list[Near]:
    """Pictures that nearly repeat one of an earlier split.

    Each picture becomes 64 bits (`eqben_builder.perceptual_hash`). Pictures of one colour are left out, and pictures
    that cannot be decoded, which `check_data` names. Of a clip its middle frame counts. Of several pictures
    that a picture is near, the nearest is named.

    Example:
        >>> import tempfile, pathlib
        >>> from PIL import Image
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (9, 9, 3), np.uint8)).resize((90, 90))
        >>> picture.save(folder / "a.png"), picture.resize((50, 50)).save(folder / "b.jpg")
        (None, None)
        >>> sides = {"train": [str(folder / "a.png")], "test": [str(folder / "b.jpg")]}
        >>> [near.bits <= 4 for near in near_duplicates(sides, 4)]
        [True]
    """
    if not 0 <= bits <= 32:
        raise ValueError(f"near-duplicates differ in 0 to 32 of 64 bits, not in {bits}")
    pairs: list[Near] = []
    before: list[tuple[str, Source]] = []
    hashes = np.zeros(0, np.uint64)
    for split, sources in sides.items():
        hashed = [(source, value) for source in sources if (value := _hash(source)) is not None]
        own = np.array([value for _, value in hashed], np.uint64)
        for row, column, apart in zip(*_nearest(own, hashes, bits), strict=True):
            other_split, second = before[column]
            if second != hashed[row][0]:
                pairs.append(Near(split, described(hashed[row][0]), other_split, described(second), int(apart)))
        before += [(split, source) for source, _ in hashed]
        hashes = np.concatenate([hashes, own])
    return sorted(pairs, key=lambda near: near.bits)


def _hash(source: Source) -> int | None:
    if isinstance(source, Stored):
        return None
    try:
        picture = read_clip(source._replace(frames=1))[0] if isinstance(source, Clip) else decode(source, _SIDE)
    except DataError:
        return None
    pixels = np.asarray(picture)
    return None if pixels.mean(axis=2).std() < _FLAT else perceptual_hash(pixels)


def _nearest(
    own: UInt64[np.ndarray, " m"], earlier: UInt64[np.ndarray, " n"], bits: int
) -> tuple[Int[np.ndarray, " f"], Int[np.ndarray, " f"], Int[np.ndarray, " f"]]:
    """Rows of `own` with a neighbour, which one, and how far it is."""
    rows, columns, apart = [], [], []
    for start in range(0, len(own) if len(earlier) else 0, max(1, _BLOCK // max(1, len(earlier)))):
        part = own[start : start + max(1, _BLOCK // len(earlier))]
        distance = bits_apart(part[:, None], earlier[None])
        nearest = distance.argmin(axis=1)
        least = distance[np.arange(len(part)), nearest]
        close = np.flatnonzero(least <= bits)
        rows.append(close + start)
        columns.append(nearest[close])
        apart.append(least[close].astype(np.int64))
    if not rows:
        empty = np.zeros(0, np.int64)
        return empty, empty, empty
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(apart)
