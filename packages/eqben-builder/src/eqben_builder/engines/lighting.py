"""Where the camera and the lamp stand, what the sky looks like, and textures of floors in linear light."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from eqben_builder.engines.scene import AIM, DISTANCE

if TYPE_CHECKING:
    from jaxtyping import Float32

    from eqben_builder.engines.scene import Stage

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


#: Half the side of the floor and of the square lamp, in metres, and how often the floor's texture is repeated.
FLOOR, LAMP, REPEATS = 24.0, 1.3, 12
#: Of the lamp, in W / (m2 sr) for red, green and blue.
RADIANCE = (17.0, 16.2, 15.0)


def camera_place(stage: Stage) -> list[float]:
    """Where the camera stands, in metres; it looks at the point `AIM` above the middle of the floor."""
    up, away = math.sin(stage.camera_elevation), math.cos(stage.camera_elevation)
    return [0, -DISTANCE * away, AIM + DISTANCE * up]


def lamp_place(stage: Stage) -> list[float]:
    """Where the lamp hangs, above the camera's shoulder; it shines at the middle of the floor."""
    flat = math.cos(stage.light_elevation)
    return [
        7 * flat * math.cos(stage.light_azimuth),
        7 * flat * math.sin(stage.light_azimuth) - 2.0,
        7 * math.sin(stage.light_elevation),
    ]


def sky() -> Float32[np.ndarray, "h w 3"]:
    """Radiance all around, brighter overhead, for metal to reflect: float32 [32, 64, 3], the zenith first."""
    rows, columns = np.linspace(1, 0, 32, dtype=np.float32)[:, None], np.arange(64)
    # Bright panels around the horizon, as in a photographer's studio, between dark gaps.
    panels = (rows > 0.45) & (rows < 0.85) & (columns % 16 < 7)[None, :]
    level = 0.10 + 0.35 * rows**2 + 0.9 * panels
    return np.ascontiguousarray((level[..., None] * np.array([0.95, 1.0, 1.08])).astype(np.float32))


def metal_tint(colour: tuple[float, float, float]) -> list[float]:
    """What coloured metal reflects."""
    return [0.14 + 0.86 * value for value in colour]


def glass_tint(colour: tuple[float, float, float]) -> list[float]:
    """What a sheet of coloured glass lets through: deep enough for a body, seen through two, to have its colour."""
    return [0.06 + 0.94 * value**0.6 for value in colour]
