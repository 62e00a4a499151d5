"""What an engine is: it draws the two scenes of a pair, and says which pixels belong to which object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Int16, UInt8

    from eqben_builder.engines.scene import FloorScene


@dataclass(frozen=True, eq=False)
class Drawn:
    """Two pictures, and who is seen where.

    Args:
        images: Two uint8 [size, size, 3].
        seen: Two int16 [size, size]: the index of the object at each pixel's middle or near it, -1 for the floor.
        notes: JSON-ready figures about the drawing.

    Example:
        >>> from eqben_builder.engines.raster_engine import RasterEngine
        >>> from eqben_builder.kubric import FloorScene, Thing
        >>> scenes = [FloorScene((Thing("cube", colour, "large", "rubber", 0, 0),)) for colour in ("red", "blue")]
        >>> drawn = RasterEngine().draw((scenes[0], scenes[1]), 64, seed=0)
        >>> drawn.images[0].shape, int(drawn.seen[0][32, 32]), int(drawn.seen[0][0, 0])
        ((64, 64, 3), 0, -1)
    """

    images: tuple[UInt8[np.ndarray, "h w 3"], UInt8[np.ndarray, "h w 3"]]
    seen: tuple[Int16[np.ndarray, "h w"], Int16[np.ndarray, "h w"]]
    notes: dict[str, Any] = field(default_factory=dict)


class Engine(Protocol):
    """Draws pairs of floor scenes; equal arguments give equal bytes.

    Example:
        >>> from eqben_builder.engines.raster_engine import RasterEngine
        >>> from eqben_builder.kubric import KubricBuilder
        >>> engine: Engine = RasterEngine()
        >>> KubricBuilder(engine=engine, aspects=["location"], size=64).make(0).aspect
        'location'
    """

    @property
    def name(self) -> str:
        """As on the command line."""

    @property
    def shapes(self) -> tuple[str, ...]:
        """Nouns of the objects that it can draw."""

    @property
    def textured(self) -> frozenset[str]:
        """Those that have a texture of their own, and so neither colour nor material."""

    @property
    def materials(self) -> tuple[str, ...]:
        """Materials that it can draw."""

    @property
    def colours(self) -> tuple[str, ...]:
        """Colours that it can draw."""

    def parameters(self) -> dict[str, Any]:
        """JSON-ready: everything that decides the pictures, besides scenes, size and seed."""

    def versions(self) -> dict[str, str]:
        """Versions of what draws."""

    def draw(self, scenes: tuple[FloorScene, FloorScene], size: int, seed: int) -> Drawn | str:
        """Draw both scenes with the same noise, or say why not, as when an object is hidden."""


#: An object must be seen in this share of the picture's pixels.
LEAST_SEEN = 0.003


def hidden(visible: Int16[np.ndarray, "h w"], count: int) -> bool:
    """Whether some object is seen in fewer than `LEAST_SEEN` of the pixels."""
    return any(float((visible == k).mean()) < LEAST_SEEN for k in range(count))
