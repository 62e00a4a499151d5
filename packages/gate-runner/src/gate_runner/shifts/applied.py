"""One shift at one strength, as a function of an image's pixels: the same image is always shifted alike."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8

from gate_runner.errors import DataError, unknown
from gate_runner.shifts.corruptions import CORRUPTIONS, grey, resolution

LEAST = 16
"""Pixels of the shorter side from which on a shift is computed: blurs and boxes of smaller images mean nothing."""
KINDS = ("corruptions", "resolution", "grey", *CORRUPTIONS)
"""What ``shift`` takes: all fifteen corruptions, one of them, or another shift."""
_FUNCTIONS = {**CORRUPTIONS, "resolution": resolution, "grey": grey}


@dataclass(frozen=True)
class Shift:
    """A corruption at a strength.

    Args:
        name: of `gate_runner.shifts.corruptions.CORRUPTIONS`, ``resolution`` or ``grey``.
        strength: 1 to 5.

    Example:
        >>> pixels = np.arange(3 * 16 * 16, dtype=np.uint8).reshape(3, 16, 16)
        >>> bool(Shift("contrast", 5)(pixels).std() < pixels.std())
        True
    """

    name: str
    strength: int

    def __call__(self, pixels: UInt8[np.ndarray, "3 h w"]) -> UInt8[np.ndarray, "3 h w"]:
        """Shift an image; what is drawn follows from its pixels, the shift and the strength.

        Raises:
            DataError: a side is shorter than 16 pixels; shows the size.
        """
        height, width = pixels.shape[-2:]
        if min(height, width) < LEAST:
            raise DataError(
                f"an image of {width} x {height} pixels cannot be shifted: expected at least {LEAST} a side"
            )
        text = f"{self.name} {self.strength} {pixels.shape}".encode()
        seed = hashlib.blake2b(text + np.ascontiguousarray(pixels).tobytes(), digest_size=8).digest()
        rng = np.random.default_rng(int.from_bytes(seed, "little"))
        image = pixels.transpose(1, 2, 0) / 255.0
        shifted = _FUNCTIONS[self.name](image, self.strength - 1, rng)
        # a value that is whole but for rounding stays whole; all others are cut, as the published code does
        whole = np.floor(np.clip(shifted, 0, 1) * 255 + 1e-6).astype(np.uint8)
        return np.ascontiguousarray(whole.transpose(2, 0, 1))


def named_shifts(names: Sequence[str]) -> list[Shift]:
    """Return every shift at every strength that names ask for, each once.

    Raises:
        UsageError: an unknown name; shows the nearest.

    Example:
        >>> len(named_shifts(["corruptions"])), named_shifts(["grey"])
        (75, [Shift(name='grey', strength=1)])
    """
    listed: dict[Shift, None] = {}
    for name in names:
        if name not in KINDS:
            raise unknown("shift", name, KINDS)
        for kind in CORRUPTIONS if name == "corruptions" else (name,):
            listed |= {Shift(kind, strength): None for strength in range(1, 2 if kind == "grey" else 6)}
    return list(listed)
