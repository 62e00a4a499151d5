"""What a certificate can say of any pair: words that differ between captions, pixels that differ between images."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, UInt8

#: A channel must move by more than this, of 255, for a pixel to count as changed to the eye.
VISIBLE = 10


def token_edits(caption0: str, caption1: str) -> list[dict[str, Any]]:
    """The runs of words that differ, from the first caption to the second."""
    a, b = caption0.split(), caption1.split()
    return [
        {"at": i0, "from": a[i0:i1], "to": b[j0:j1]}
        for kind, i0, i1, j0, j1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
        if kind != "equal"
    ]


def pixel_change(
    image0: UInt8[np.ndarray, "h w 3"], image1: UInt8[np.ndarray, "h w 3"], mask: Bool[np.ndarray, "h w"] | None = None
) -> dict[str, float]:
    """Shares of pixels that differ at all (`changed`) and by more than `VISIBLE` (`moved`); also by mask."""
    if image0.shape != image1.shape or (mask is not None and mask.shape != image0.shape[:2]):
        raise ValueError(f"shapes differ: {image0.shape}, {image1.shape}, {None if mask is None else mask.shape}")
    distance = np.abs(image0.astype(np.int16) - image1.astype(np.int16)).max(axis=-1)
    maps = {"changed": distance > 0, "moved": distance > VISIBLE}
    shares = {name: _share(where) for name, where in maps.items()}
    if mask is not None:
        shares["mask_share"] = _share(mask)
        shares |= {f"{name}_inside": _share(where[mask]) for name, where in maps.items()}
        shares |= {f"{name}_outside": _share(where[~mask]) for name, where in maps.items()}
    return shares


def colour_distance(
    image0: UInt8[np.ndarray, "h w 3"], image1: UInt8[np.ndarray, "h w 3"]
) -> Float64[np.ndarray, "h w"]:
    """How far apart two images look, pixel by pixel: the distance in CIE L*a*b* (1976), of which about 2 is seen.

    Source:
        IEC 61966-2-1 (sRGB, D65) and CIE 15 (L*a*b*).
    """
    first, second = _lab(image0), _lab(image1)
    distance: NDArray[np.float64] = np.sqrt(((first - second) ** 2).sum(-1))
    return distance


def _lab(image: NDArray[np.uint8]) -> NDArray[np.float64]:
    value = image.astype(np.float64) / 255
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    # White must be exactly neutral: each row of the matrix is divided by its own sum.
    xyz = linear @ (_TO_XYZ / _TO_XYZ.sum(1, keepdims=True)).T
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz * (29 / 6) ** 2 / 3 + 4 / 29)
    x, y, z = f[..., 0], f[..., 1], f[..., 2]
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def _share(where: NDArray[np.bool_]) -> float:
    return round(float(where.mean()), 6) if where.size else 0.0
