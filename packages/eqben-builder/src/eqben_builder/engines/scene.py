"""Scene graphs of objects on a floor, what differs between two of them, and what an engine is that draws them."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from eqben_builder.micro.minimal import (
    Difference,
    Relation,
    between_all,
    check_relations,
    count_difference,
    dominant,
    read_fields,
    read_items,
)

if TYPE_CHECKING:
    from jaxtyping import Int16, UInt8

COLOURS: dict[str, tuple[float, float, float]] = {
    "red": (0.62, 0.03, 0.03),
    "green": (0.04, 0.34, 0.06),
    "blue": (0.03, 0.09, 0.58),
    "yellow": (0.80, 0.60, 0.02),
    "purple": (0.24, 0.04, 0.42),
    "pink": (0.82, 0.27, 0.45),
    "brown": (0.17, 0.065, 0.02),
    "cyan": (0.03, 0.52, 0.58),
    "white": (0.82, 0.82, 0.82),
    "black": (0.015, 0.015, 0.015),
}
SIZES: dict[str, float] = {"small": 0.30, "large": 0.52}
MATERIALS: tuple[str, ...] = ("rubber", "metal", "glass")
RELATIONS: tuple[str, ...] = ("to the left of", "to the right of", "in front of", "behind")
INVERSE: dict[str, str] = dict(
    zip(RELATIONS, ("to the right of", "to the left of", "behind", "in front of"), strict=True)
)
#: The fields that a caption can name, in the order in which it names them.
FIELDS: tuple[str, ...] = ("size", "colour", "material", "shape")

#: Two objects stand in a relation when their places differ by this much along an axis, and by `DOMINANCE` times less
#: along the other.
MIN_GAP, DOMINANCE = 0.75, 1.8


@dataclass(frozen=True)
class Thing:
    """One object on the floor.

    Args:
        shape: Noun of the shape, such as "cube".
        colour: One of `COLOURS`, or "" for an object that has a texture of its own.
        size: One of `SIZES`: the radius of the object's bounding sphere, in metres.
        material: One of `MATERIALS`, or "" with a texture of its own.
        x: Place on the floor, to the right, in metres from the middle.
        y: Place on the floor, away from the camera.
        turn: About the vertical, in radians.
    """

    shape: str
    colour: str
    size: str
    material: str
    x: float
    y: float
    turn: float = 0.0

    def __post_init__(self) -> None:
        choices = {"colour": ("", *COLOURS), "size": tuple(SIZES), "material": ("", *MATERIALS)}
        for name, values in choices.items():
            if getattr(self, name) not in values:
                raise ValueError(f"{name} {getattr(self, name)!r} is not one of {', '.join(filter(None, values))}")
        if not self.shape or not isinstance(self.shape, str):
            raise ValueError(f"shape {self.shape!r} is not a noun")
        for name in ("x", "y", "turn"):
            if not isinstance(getattr(self, name), int | float) or not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} = {getattr(self, name)!r} is not a finite number")

    @property
    def radius(self) -> float:
        """Of the bounding sphere, in metres."""
        return SIZES[self.size]


@dataclass(frozen=True)
class Stage:
    """What both images of a pair share: floor, light and camera; angles in radians, tones in [0, 1]."""

    floor: str = "plain"
    tone: tuple[float, float, float] = (0.5, 0.5, 0.5)
    light_azimuth: float = 2.2
    light_elevation: float = 0.95
    camera_elevation: float = 0.6


FLOORS: tuple[str, ...] = ("plain", "tiles", "planks")


#: The camera looks at a point above the floor's middle from this far away, in metres; field of view in degrees.
DISTANCE, FIELD_OF_VIEW, AIM = 7.0, 27.0, 0.25


class Outline(NamedTuple):
    """An object's bounding sphere as the camera sees it; the image's side is one, x to the right, y downwards."""

    x: float
    y: float
    radius: float

    @property
    def inside(self) -> bool:
        """Whether it lies within the image."""
        return all(self.radius <= coordinate <= 1 - self.radius for coordinate in (self.x, self.y))


def outline(thing: Thing, stage: Stage) -> Outline:
    """Project an object's bounding sphere, taken as standing on the floor, into the image."""
    up, away = math.sin(stage.camera_elevation), math.cos(stage.camera_elevation)
    height = thing.radius * 0.7 - AIM
    depth = DISTANCE + thing.y * away - height * up
    focal = 0.5 / math.tan(math.radians(FIELD_OF_VIEW) / 2)
    across, above = focal * thing.x / depth, focal * (thing.y * up + height * away) / depth
    return Outline(0.5 + across, 0.5 - above, focal * thing.radius / depth)


@dataclass(frozen=True)
class FloorScene:
    """Objects on a stage."""

    things: tuple[Thing, ...]
    stage: Stage = Stage()

    @property
    def items(self) -> tuple[Thing, ...]:
        """The objects, as every scene graph calls them."""
        return self.things

    def relations(self) -> tuple[Relation, ...]:
        """All relations between ordered pairs of objects, as the camera sees them."""
        return tuple(between_all(self.things, _relation))

    def to_dict(self) -> dict[str, Any]:
        """The graph as JSON-ready values: stage, things, relations."""
        return {
            "stage": asdict(self.stage) | {"tone": list(self.stage.tone)},
            "things": [asdict(thing) for thing in self.things],
            "relations": [relation._asdict() for relation in self.relations()],
        }

    @classmethod
    def from_dict(cls, graph: object) -> FloorScene:
        """Read what `to_dict` wrote; a `ValueError` names the field that is missing, unknown or wrong."""
        graph, things = read_items(graph, "things", Thing)
        stage = read_fields(Stage, graph.get("stage"), "stage")
        try:
            red, green, blue = stage.tone
        except (TypeError, ValueError):
            raise ValueError(f"scene graph: stage: tone = {stage.tone!r} is not three numbers") from None
        scene = cls(things, replace(stage, tone=(red, green, blue)))
        check_relations(graph, scene)
        return scene


def _relation(a: Thing, b: Thing) -> str | None:
    return dominant(b.x - a.x, b.y - a.y, RELATIONS, MIN_GAP, DOMINANCE)


def scene_changes(scene0: FloorScene, scene1: FloorScene) -> tuple[Difference, ...]:
    """List what differs between two scenes; a minimal pair gives exactly one entry."""
    differences = [] if scene0.stage == scene1.stage else [Difference("other", "stage", ())]
    a, b = scene0.things, scene1.things
    if len(a) != len(b):
        return (*differences, count_difference("counting", a, b, "objects"))
    changed = [i for i in range(len(a)) if a[i] != b[i]]
    if len(changed) == 2:
        i, j = changed
        relation = _relation(a[i], a[j])
        if relation is not None and _moved(a[i], a[j]) == b[i] and _moved(a[j], a[i]) == b[j]:
            return (*differences, Difference("location", relation, (i, j)))
    for i in changed:
        for name in (attribute.name for attribute in fields(Thing)):
            if getattr(a[i], name) != getattr(b[i], name):
                differences.append(Difference("attribute" if name in FIELDS else "other", name, (i,)))
    return tuple(differences)


def _moved(thing: Thing, target: Thing) -> Thing:
    return replace(thing, x=target.x, y=target.y)


def exchanged(scene: FloorScene, i: int, j: int) -> FloorScene:
    """The scene with two objects in each other's place."""
    things = list(scene.things)
    things[i], things[j] = _moved(things[i], things[j]), _moved(things[j], things[i])
    return FloorScene(tuple(things), scene.stage)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Two images, and who is seen where.

    Args:
        images: Two uint8 [size, size, 3].
        seen: Two int16 [size, size]: the index of the object at each pixel's middle or near it, -1 for the floor.
        notes: JSON-ready figures about the drawing.
    """

    images: tuple[UInt8[np.ndarray, "h w 3"], UInt8[np.ndarray, "h w 3"]]
    seen: tuple[Int16[np.ndarray, "h w"], Int16[np.ndarray, "h w"]]
    notes: dict[str, Any] = field(default_factory=dict)


class Engine(Protocol):
    """Draws pairs of floor scenes; equal arguments give equal bytes."""

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
        """JSON-ready: everything that decides the images, besides scenes, size and seed."""

    def versions(self) -> dict[str, str]:
        """Versions of what draws."""

    def draw(self, scenes: tuple[FloorScene, FloorScene], size: int, seed: int) -> Drawn | str:
        """Draw both scenes with the same noise, or say why not, as when an object is hidden."""


#: An object must be seen in this share of the image's pixels.
LEAST_SEEN = 0.003


def hidden(visible: Int16[np.ndarray, "h w"], count: int) -> bool:
    """Whether some object is seen in fewer than `LEAST_SEEN` of the pixels."""
    return any(float((visible == k).mean()) < LEAST_SEEN for k in range(count))
