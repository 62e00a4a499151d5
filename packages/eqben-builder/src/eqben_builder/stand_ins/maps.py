"""Segmentations of different character: a street, things and stuff, a few classes of many, and a room with depths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from eqben_builder.micro import COLOURS, SHAPES, SIZES, Item, Scene, sample_scene
from eqben_builder.micro.attributes import RGB
from eqben_builder.stand_ins.data import DrawnSet, DrawnSplit
from eqben_builder.stand_ins.drawing import (
    IGNORED,
    SIDE,
    SPLITS,
    Painted,
    SplitName,
    Targets,
    as_classes,
    as_values,
    capped,
    coordinates,
    draw,
    painted,
    scenes_of,
    split_seed,
)


def shape_maps(limit: int | None = None) -> DrawnSet:
    """Two to five objects that may hide one another; a pixel's class is the shape that it shows, 0 is background."""

    def split(name: SplitName, count: int) -> DrawnSplit:
        seed = split_seed("shape_maps", name)

        def scene(rng: np.random.Generator, _: int) -> Scene:
            return sample_scene(rng, (2, 5), max_overlap=0.4)

        scenes = scenes_of(seed, count, scene)
        drawn = draw(scenes, seed, noise=0.06)
        of_item = np.zeros((count, 17), dtype=np.int64)
        for row, scene_drawn in enumerate(scenes):
            for index, item in enumerate(scene_drawn.items):
                of_item[row, index + 1] = 1 + SHAPES.index(item.shape)
        maps = np.take_along_axis(of_item, drawn.visible.reshape(count, -1).astype(np.int64), axis=1)
        return DrawnSplit(drawn.images, maps.reshape(count, SIDE, SIDE))

    train, validation, test = (
        split(part, capped(count, limit)) for part, count in zip(SPLITS, (700, 120, 300), strict=True)
    )
    return DrawnSet(train, validation, test, ("background", *SHAPES))


_STREET = ("sky", "building", "vegetation", "sidewalk", "road", "car", "person", "sign")
_TINTS = np.array(
    [(0.5, 0.65, 0.85), (0.45, 0.4, 0.38), (0.2, 0.4, 0.18), (0.55, 0.5, 0.5), (0.25, 0.25, 0.27)], dtype=np.float64
)
_STUFF = ("grass", "water", "sand", "cloud")
_ROOM = ("ceiling", "wall", "floor", "box", "ball", "lamp", "rug")

Paint = Callable[[np.random.Generator], Painted]
"""What is about an image is the background's truth, and the truth of each item."""


def _mapped(
    name: str,
    limit: int | None,
    counts: tuple[int, int, int],
    paint: Paint,
    classes: Sequence[str],
    targets: Targets = as_classes,
) -> DrawnSet:
    def truth(visible: np.ndarray, about: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        behind, of_item = about
        return np.where(visible == 0, behind, np.concatenate([[0], of_item])[visible])

    return painted(name, limit, counts, paint, truth, targets, classes)


def colours_of_places(limit: int | None = None) -> DrawnSet:
    """Two to four things of ten colours on two grounds of other colours: every pixel has a colour's word."""
    rows, columns = coordinates()

    def paint(rng: np.random.Generator) -> Painted:
        first, second, *colours = (int(index) for index in rng.permutation(len(COLOURS))[: int(rng.integers(4, 7))])
        turn = rng.uniform(0, np.pi)
        below = (columns - 0.5) * np.cos(turn) + (rows - 0.5) * np.sin(turn) > rng.uniform(-0.1, 0.1)
        truth = np.where(below, first, second)
        scene = sample_scene(rng, (2, 4), shapes=("square", "circle"), sizes=("large",), max_overlap=0.2)
        kinds = [colours[index % len(colours)] for index in range(len(scene.items))]
        pairs = zip(scene.items, kinds, strict=True)
        items = [replace(item, colour=COLOURS[kind], material="plain") for item, kind in pairs]
        behind = np.array([RGB[name] for name in COLOURS])[truth]
        return Painted(Scene(tuple(items)), behind, (truth, np.array(kinds)))

    return _mapped("colours_of_places", limit, (200, 60, 200), paint, COLOURS)


def large_things(limit: int | None = None) -> DrawnSet:
    """Two or three things of any shape and pattern, 32 to 54 pixels wide, on a ground: every pixel has a colour's word.

    With patches of 8 pixels a thing is 4 to 7 patches wide, as things in photographs are for published encoders.
    """

    def paint(rng: np.random.Generator) -> Painted:
        ground, *colours = (int(index) for index in rng.permutation(len(COLOURS))[: int(rng.integers(3, 5))])
        scene = sample_scene(rng, len(colours), max_overlap=0.5)
        items = [
            replace(
                item,
                colour=COLOURS[kind],
                scale=float(rng.uniform(0.25, 0.42)),
                x=float(rng.uniform(0.15, 0.85)),
                y=float(rng.uniform(0.15, 0.85)),
            )
            for item, kind in zip(scene.items, colours, strict=True)
        ]
        truth = np.full((SIDE, SIDE), ground)
        behind = np.array([RGB[name] for name in COLOURS])[truth]
        return Painted(Scene(tuple(items)), behind, (truth, np.array(colours)))

    return _mapped("large_things", limit, (200, 60, 200), paint, COLOURS)


def streets(limit: int | None = None) -> DrawnSet:
    """A street at night from the driver's seat: sky, houses or trees, sidewalk, road, and what stands about on it.

    Cars, persons and signs have any colour, size and place: only their outline says what they are.
    """
    rows, columns = coordinates()
    outlines = {"square": 5, "circle": 6, "triangle": 7}

    def paint(rng: np.random.Generator) -> Painted:
        horizon, kerb = rng.uniform(0.25, 0.4), rng.uniform(0.5, 0.62)
        truth = np.zeros((SIDE, SIDE), dtype=np.int64)
        trees = np.sin(2 * np.pi * (columns * rng.uniform(1, 2) + rng.random())) > rng.uniform(-0.3, 0.6)
        truth[(rows > horizon) & (rows <= kerb)] = 1
        truth[(rows > horizon) & (rows <= kerb) & trees] = 2
        vanish = rng.uniform(0.35, 0.65)
        road = np.abs(columns - vanish) < (rows - kerb) * rng.uniform(0.9, 1.5)
        truth[rows > kerb] = 3
        truth[(rows > kerb) & road] = 4
        scene = sample_scene(rng, (3, 5), shapes=tuple(outlines), max_overlap=0.3)
        kinds = np.array([outlines[item.shape] for item in scene.items], dtype=np.int64)
        return Painted(scene, 0.4 * _TINTS[truth], (truth, kinds))

    return _mapped("streets", limit, (280, 40, 120), paint, _STREET)


def _things_and_stuff(
    shapes: Sequence[str], counts: tuple[int, int], *, light: float = 1.0, sizes: Sequence[str] = SIZES
) -> Paint:
    rows, columns = coordinates()

    def paint(rng: np.random.Generator) -> Painted:
        first, second = (int(index) for index in rng.choice(len(_STUFF), 2, replace=False))
        turn = rng.uniform(0, np.pi)
        below = columns * np.cos(turn) + rows * np.sin(turn) > rng.uniform(0.2, 0.8)
        truth = len(shapes) + np.where(below, first, second)
        pitch = np.array([14, 5, 24, 2])[truth - len(shapes)]
        waves = 0.35 + 0.12 * np.sin(2 * np.pi * pitch * (rows + 0.3 * columns))
        tint = np.array([(0.6, 1.2, 0.5), (0.5, 0.8, 1.4), (1.2, 1.1, 0.6), (1.0, 1.0, 1.1)])[truth - len(shapes)]
        scene = sample_scene(rng, counts, shapes=shapes, sizes=sizes, max_overlap=0.3)
        kinds = np.array([shapes.index(item.shape) for item in scene.items])
        return Painted(scene, np.clip(light * waves[..., None] * tint, 0, 1), (truth, kinds))

    return paint


def dark_things(limit: int | None = None) -> DrawnSet:
    """Six kinds of large things on four kinds of stuff in the dark, few images to learn from."""
    paint = _things_and_stuff(SHAPES[:6], (2, 4), light=0.4, sizes=("large",))
    return _mapped("dark_things", limit, (160, 40, 120), paint, (*SHAPES[:6], *_STUFF))


def things_and_stuff(limit: int | None = None) -> DrawnSet:
    """Eight kinds of things, more of them, on four kinds of stuff, and more images to learn from."""
    return _mapped("things_and_stuff", limit, (420, 60, 160), _things_and_stuff(SHAPES, (2, 6)), (*SHAPES, *_STUFF))


def things_alone(limit: int | None = None) -> DrawnSet:
    """Only five of the eight shapes and none of the ground are asked for; all else counts nowhere."""
    paint = _things_and_stuff(SHAPES, (2, 5))

    def few(rng: np.random.Generator) -> Painted:
        scene, behind, (truth, kinds) = paint(rng)
        return Painted(scene, behind, (np.full_like(truth, IGNORED), np.where(kinds < 5, kinds, IGNORED)))

    return _mapped("things_alone", limit, (280, 40, 120), few, SHAPES[:5])


def _room(rng: np.random.Generator) -> tuple[Painted, np.ndarray, np.ndarray]:
    """A room in perspective, with the metres of its background and of each thing in it."""
    rows = coordinates()[0]
    floor, ceiling = rng.uniform(0.6, 0.72), rng.uniform(0.15, 0.28)
    far = rng.uniform(3.0, 6.0)
    truth = np.full((SIDE, SIDE), 1)
    truth[rows > floor], truth[rows < ceiling] = 2, 0
    metres = np.full((SIDE, SIDE), far)
    below, above = (rows - 0.45) / (floor - 0.45), (0.45 - rows) / (0.45 - ceiling)
    metres = np.where(truth == 2, far / np.maximum(below, 1), np.where(truth == 0, far / np.maximum(above, 1), metres))
    hue = rng.uniform(0.35, 0.7, (3, 3))
    behind = hue[truth] * (1.15 - 0.12 * metres[..., None])
    items, kinds, places = [], [], []
    for shape, label, low, high in (("square", 3, 0.66, 0.9), ("circle", 4, 0.66, 0.9), ("star", 5, 0.2, 0.4),
                                    ("diamond", 6, 0.7, 0.9)):  # fmt: skip
        for _ in range(int(rng.integers(0, 3))):
            x, y = rng.uniform(0.1, 0.9), rng.uniform(low, high)
            at = float(np.interp(y, rows[:, 0], metres[:, 0])) if y > floor else far * float(rng.uniform(0.4, 0.9))
            items.append(Item(shape, str(rng.choice(COLOURS)), "small", "plain", float(x), float(y), 0.3 / at))
            kinds.append(label)
            places.append(at)
    order = np.argsort(places)[::-1].tolist()  # what is near hides what is far
    scene = Scene(tuple(items[index] for index in order))
    return (
        Painted(scene, behind, (truth, np.array([kinds[index] for index in order], dtype=np.int64))),
        metres,
        np.array([places[index] for index in order]),
    )


def rooms(limit: int | None = None) -> DrawnSet:
    """Ceiling, wall and floor of a room, and what stands or hangs in it."""
    return _mapped("rooms", limit, (280, 40, 120), lambda rng: _room(rng)[0], _ROOM)


def room_depths(limit: int | None = None) -> DrawnSet:
    """The same rooms; the truth is how many metres away each pixel is."""

    def paint(rng: np.random.Generator) -> Painted:
        (scene, behind, _), metres, places = _room(rng)
        return Painted(scene, behind, (metres, places))

    return _mapped("rooms", limit, (280, 40, 120), paint, (), as_values)
