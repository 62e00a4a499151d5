"""Near-duplicates: a 64-bit perceptual hash, and a set of pairs that knows whether it holds one like a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import UInt8

_SIDE = 32
_LOW = 8
_SCALE = 1 << 14


def _cosines() -> NDArray[np.int64]:
    # Whole numbers, so that a hash does not depend on how a machine orders its sums.
    k, n = np.arange(_LOW)[:, None], np.arange(_SIDE)[None, :]
    table: NDArray[np.int64] = np.rint(_SCALE * np.cos(np.pi * k * (2 * n + 1) / (2 * _SIDE))).astype(np.int64)
    return table


_COSINES = _cosines()


def perceptual_hash(picture: UInt8[np.ndarray, "h w 3"]) -> int:
    """64 bits that change little when an image does.

    The image becomes grey, 32 x 32; of its cosine transform the 8 x 8 lowest frequencies are kept; each bit says
    whether one of them lies above their median.
    """
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
        raise ValueError(f"expected a uint8 image [height, width, 3], found {picture.dtype} {list(picture.shape)}")
    grey = Image.fromarray(picture).convert("L").resize((_SIDE, _SIDE), Image.Resampling.BOX)
    pixels = np.asarray(grey, dtype=np.int64)
    low = (_COSINES @ pixels @ _COSINES.T).ravel()
    # Twice the median, which lies between two whole numbers.
    above = 2 * low > np.sort(low)[31:33].sum()
    return int.from_bytes(np.packbits(above).tobytes(), "big")


class PairHashes:
    """The hashes of the pairs kept so far.

    Two pairs are near-duplicates when each image of one lies within `bits` of a different image of the other, in
    either order. The two images of one pair are never compared: they are alike on purpose.
    """

    def __init__(self, bits: int) -> None:
        if not 0 <= bits <= 63:
            raise ValueError(f"bits = {bits!r} lies outside 0 to 63")
        self.bits = bits
        self._hashes = np.zeros((1024, 2), dtype=np.uint64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, first: int, second: int) -> None:
        """Keep a pair's two hashes."""
        if self._count == len(self._hashes):
            self._hashes = np.concatenate([self._hashes, np.zeros_like(self._hashes)])
        self._hashes[self._count] = (first, second)
        self._count += 1

    def alike(self, first: int, second: int) -> int | None:
        """Index of the first kept pair that this one nearly repeats, or None."""
        earlier = self._hashes[: self._count]
        near = [bits_apart(earlier, np.uint64(value)) <= self.bits for value in (first, second)]
        places = np.flatnonzero((near[0][:, 0] & near[1][:, 1]) | (near[0][:, 1] & near[1][:, 0]))
        return int(places[0]) if len(places) else None


def bits_apart(first: NDArray[np.uint64], second: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint8]:
    """In how many bits hashes differ."""
    differing = first ^ second
    if hasattr(np, "bitwise_count"):  # since NumPy 2.0
        counts: NDArray[np.uint8] = np.bitwise_count(differing)
        return counts
    parts = np.ascontiguousarray(differing).view(np.uint16).reshape(*differing.shape, 4)
    return np.asarray(_BITS_OF_16[parts].sum(axis=-1, dtype=np.uint8))


_BITS_OF_16: NDArray[np.uint8] = np.array([n.bit_count() for n in range(1 << 16)], dtype=np.uint8)


def near_duplicates(hashes: Sequence[tuple[int, int]], bits: int) -> list[tuple[int, int]]:
    """Pairs that nearly repeat an earlier one, as (earlier, later) indices."""
    hashed, repeats = PairHashes(bits), []
    for index, (first, second) in enumerate(hashes):
        earlier = hashed.alike(first, second)
        if earlier is not None:
            repeats.append((earlier, index))
        hashed.add(first, second)
    return repeats
