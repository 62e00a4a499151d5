"""Floor scenes as flat silhouettes: no extra, a hundred times as fast as rendering, for tests and large studies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eqben_builder.engines.scene import COLOURS, Drawn, hidden, outline
from eqben_builder.micro.attributes import RGB
from eqben_builder.micro.raster import render
from eqben_builder.micro.scene import Item, Scene

if TYPE_CHECKING:
    from eqben_builder.engines.scene import FloorScene

#: The flat shape of each solid.
SILHOUETTES: dict[str, str] = {
    "sphere": "circle",
    "cube": "square",
    "cone": "triangle",
    "diamond": "diamond",
    "cross": "cross",
    "star": "star",
    "ring": "ring",
    "heart": "heart",
}
_MATERIALS = {"rubber": "plain", "metal": "shiny"}


class RasterEngine:
    """Draws each object as the flat outline of its kind, larger when it is nearer, in painter's order.

    Rubber is plain and metal shaded; there is no glass, no black, no shadow and no light.
    """

    name = "raster"
    shapes: tuple[str, ...] = tuple(SILHOUETTES)
    textured: frozenset[str] = frozenset()
    materials: tuple[str, ...] = tuple(_MATERIALS)
    colours: tuple[str, ...] = tuple(name for name in COLOURS if name in RGB)

    def parameters(self) -> dict[str, Any]:
        """Nothing decides its images but the scenes and the size."""
        return {}

    def versions(self) -> dict[str, str]:
        """None of its own."""
        return {}

    def draw(self, scenes: tuple[FloorScene, FloorScene], size: int, seed: int) -> Drawn | str:
        """Draw both scenes, or say that an object is hidden; there is no noise, and the seed is not used."""
        flat, orders = [], []
        for scene in scenes:
            order = sorted(range(len(scene.things)), key=lambda k: -scene.things[k].y)
            tone = scene.stage.tone
            flat.append(Scene(tuple(_item(scene, k) for k in order), (tone[0], tone[1], tone[2])))
            # Visible masks number the items from one; 0 is the background.
            orders.append(np.array([-1, *order], dtype=np.int16))
        drawn = render(flat, size)
        visible = [order[who] for order, who in zip(orders, drawn.visible, strict=True)]
        if any(hidden(who, len(scene.things)) for who, scene in zip(visible, scenes, strict=True)):
            return "an object is hidden"
        return Drawn((drawn.images[0], drawn.images[1]), (visible[0], visible[1]))


def _item(scene: FloorScene, index: int) -> Item:
    thing = scene.things[index]
    shape = outline(thing, scene.stage)
    return Item(
        SILHOUETTES[thing.shape],
        thing.colour,
        thing.size,
        _MATERIALS[thing.material],
        round(min(1.0, max(0.0, shape.x)), 6),
        round(min(1.0, max(0.0, shape.y)), 6),
        round(shape.radius, 6),
    )
