"""Floors: a plain one, tiles, and planks with a grain, as textures of linear light."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float32

_SIDE = 256


def floor_texture(kind: str, tone: tuple[float, float, float]) -> Float32[np.ndarray, "h w 3"] | None:
    """One repeat of a floor, or None for a plain one."""
    if kind == "plain":
        return None
    row, column = np.mgrid[0:_SIDE, 0:_SIDE]
    if kind == "tiles":
        cell = 64
        chequer = (row // cell + column // cell) % 2
        joint = (row % cell < 2) | (column % cell < 2)
        level = np.where(joint, 0.7, np.where(chequer == 1, 1.06, 0.94))
    elif kind == "planks":
        width = 32
        plank = column // width
        # Whole-number noise: a plank's own tone, and a grain that runs along it.
        own = (plank * 7919 + 13) % 11 / 11.0
        shift = plank * 37
        grain = np.sin(column * (np.pi / 8) + plank * 5.0 + 1.6 * np.sin((row + shift) * (4 * np.pi / _SIDE)))
        joint = (column % width < 1) | ((row + shift * 3) % _SIDE < 2)
        level = np.where(joint, 0.62, 0.88 + 0.18 * own + 0.025 * grain)
    else:
        raise ValueError(f"floor {kind!r} is not one of plain, tiles, planks")
    values = level[..., None] * np.asarray(tone)
    return np.ascontiguousarray(np.clip(values, 0.0, 1.0).astype(np.float32))
