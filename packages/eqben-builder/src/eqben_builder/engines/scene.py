"""Scene graphs of objects on a floor, what differs between two of them, and the attributes that a caption can name."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

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

    Raises:
        ValueError: The value that is not one of its field's, or not finite.

    Example:
        >>> Thing("cube", "red", "small", "rubber", x=0.5, y=-1).radius
        0.3
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
        for field, values in choices.items():
            if getattr(self, field) not in values:
                raise ValueError(f"{field} {getattr(self, field)!r} is not one of {', '.join(filter(None, values))}")
        if not self.shape or not isinstance(self.shape, str):
            raise ValueError(f"shape {self.shape!r} is not a noun")
        for field in ("x", "y", "turn"):
            if not isinstance(getattr(self, field), int | float) or not math.isfinite(getattr(self, field)):
                raise ValueError(f"{field} = {getattr(self, field)!r} is not a finite number")

    @property
    def radius(self) -> float:
        """Of the bounding sphere, in metres."""
        return SIZES[self.size]


@dataclass(frozen=True)
class Stage:
    """What both pictures of a pair share: floor, light and camera; angles in radians, tones in [0, 1].

    Example:
        >>> Stage("planks", tone=(0.4, 0.3, 0.2)).floor
        'planks'
    """

    floor: str = "plain"
    tone: tuple[float, float, float] = (0.5, 0.5, 0.5)
    light_azimuth: float = 2.2
    light_elevation: float = 0.95
    camera_elevation: float = 0.6


FLOORS: tuple[str, ...] = ("plain", "tiles", "planks")


#: The camera looks at a point above the floor's middle from this far away, in metres; field of view in degrees.
DISTANCE, FIELD_OF_VIEW, AIM = 7.0, 27.0, 0.25


class Outline(NamedTuple):
    """An object's bounding sphere as the camera sees it; the picture's side is one, x to the right, y downwards."""

    x: float
    y: float
    radius: float

    @property
    def inside(self) -> bool:
        """Whether it lies within the picture."""
        return all(self.radius <= coordinate <= 1 - self.radius for coordinate in (self.x, self.y))


def outline(thing: Thing, stage: Stage) -> Outline:
    """Project an object's bounding sphere, taken as standing on the floor, into the picture."""
    up, away = math.sin(stage.camera_elevation), math.cos(stage.camera_elevation)
    height = thing.radius * 0.7 - AIM
    depth = DISTANCE + thing.y * away - height * up
    focal = 0.5 / math.tan(math.radians(FIELD_OF_VIEW) / 2)
    across, above = focal * thing.x / depth, focal * (thing.y * up + height * away) / depth
    return Outline(0.5 + across, 0.5 - above, focal * thing.radius / depth)


@dataclass(frozen=True)
class FloorScene:
    """Objects on a stage.

    Example:
        >>> a, b = Thing("cube", "red", "small", "rubber", -1, 0), Thing("vase", "blue", "large", "metal", 1, 0.1)
        >>> FloorScene((a, b)).relations()[0]
        Relation(subject=0, relation='to the left of', object=1)
    """

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
        """Read what `to_dict` wrote; relations must be those that follow from the places.

        Raises:
            ValueError: The field that is missing, unknown or wrong.
        """
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
    """List what differs between two scenes; a minimal pair gives exactly one entry.

    Example:
        >>> cube = Thing("cube", "red", "small", "rubber", 0, 0)
        >>> scene_changes(FloorScene((cube,)), FloorScene((cube, Thing("cube", "red", "small", "rubber", 1, 1))))
        (Difference(kind='counting', field='added', items=(1,)),)
    """
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
        for name in (field.name for field in fields(Thing)):
            if getattr(a[i], name) != getattr(b[i], name):
                differences.append(Difference("attribute" if name in FIELDS else "other", name, (i,)))
    return tuple(differences)


def _moved(thing: Thing, target: Thing) -> Thing:
    return Thing(thing.shape, thing.colour, thing.size, thing.material, target.x, target.y, thing.turn)


def exchanged(scene: FloorScene, i: int, j: int) -> FloorScene:
    """The scene with two objects in each other's place."""
    things = list(scene.things)
    things[i], things[j] = _moved(things[i], things[j]), _moved(things[j], things[i])
    return FloorScene(tuple(things), scene.stage)
