"""Six small data sets of different character, for ELEVATER's grid: each has names, and knowledge, of its own.

What an encoder must tell apart differs: sixteen makers' marks under names that say nothing, forty things, four
textures, numbers, whether all is of one colour, and which shapes are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from eqben_builder.micro import COLOURS, MATERIALS, SHAPES, Item, Scene, sample_scene
from eqben_builder.stand_ins.data import DrawnSet
from eqben_builder.stand_ins.drawing import Made, as_values, data_of, in_turn

_NAMES = (
    "dax", "blicket", "wug", "toma", "fep", "zav", "modi", "gazzer", "koba", "lorp", "pim", "riff", "sig", "tulver",
    "nid", "vash",
)  # fmt: skip
_LOOKS = [
    (material, colour, shape)
    for material in ("striped", "plain")
    for colour in ("red", "blue", "green", "yellow")
    for shape in ("star", "circle")
]
MAKERS: dict[str, tuple[str, str, str]] = dict(zip(_NAMES, _LOOKS, strict=True))
"""Invented names of makers, and what their mark looks like: material, colour, shape."""
THINGS = tuple(
    f"{colour} {shape}"
    for colour in ("red", "green", "blue", "yellow", "orange", "purple", "pink", "cyan")
    for shape in ("circle", "square", "triangle", "diamond", "cross")
)
COUNTS = ("one", "two", "three", "four", "five", "six")


@dataclass(frozen=True)
class Texts:
    """Texts of a set's classes.

    Args:
        templates: sentences with ``{}`` in the place of a class's name.
        classes: names, in the order of their indices.
        knowledge: by source, what it says of each class that it knows.

    Example:
        >>> from eqben_builder.stand_ins import TEXTS
        >>> TEXTS["makers"].knowledge["wiktionary"]["dax"]
        ['a striped red star']
    """

    templates: Sequence[str]
    classes: Sequence[str]
    knowledge: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)


def _makers() -> Texts:
    wiktionary, wordnet, gpt3 = {}, {}, {}
    for name, (material, colour, shape) in MAKERS.items():
        wiktionary[name] = [f"a {material} {colour} {shape}"]
        wordnet[name] = [f"{shape}, shape, object", f"a {shape} which is {colour} and {material}"]
        gpt3[name] = [
            f"a large {material} {colour} {shape}",
            f"a {colour} {shape}",
            f"one {shape} in {colour}",
            f"a {material} {shape}",
            f"an object which is {colour}, {material}",
        ]
    return Texts(
        ("a photo of a {}.", "a picture of the {}."),
        _NAMES,
        {"wiktionary": wiktionary, "wordnet": wordnet, "gpt3": gpt3},
    )


def _things() -> Texts:
    gpt3 = {
        name: [
            f"a large {name}",
            f"one large {name} with small objects",
            f"the {name} is larger than the other objects",
            f"an object, {name.split()[1]} in shape and {name.split()[0]} in color",
            f"a scene with a {name}",
        ]
        for name in THINGS
    }
    return Texts(("a photo of a {}.", "a picture of a large {}.", "a {}."), THINGS, {"gpt3": gpt3})


_PATTERNS = {
    "plain": ("all of one color, with no pattern", "plain things, not striped, not dotted"),
    "striped": ("with stripes", "objects with a pattern of stripes"),
    "dotted": ("spotted, with dots", "objects with a pattern of dots"),
    "shiny": ("glossy and bright", "objects of a shiny, glossy material"),
}


def _textures() -> Texts:
    wiktionary = {name: [sentences[0]] for name, sentences in _PATTERNS.items()}
    gpt3 = {
        name: [
            sentences[1],
            f"{name} shapes",
            f"several {name} objects on a dark background",
            f"a picture of large {name} items",
            f"each object is {name}",
        ]
        for name, sentences in _PATTERNS.items()
    }
    return Texts(
        ("a photo of {} objects.", "the texture of {} things."),
        tuple(_PATTERNS),
        {"wiktionary": wiktionary, "gpt3": gpt3},
    )


def _counting() -> Texts:
    plural = {name: "object" if name == "one" else "objects" for name in COUNTS}
    gpt3 = {
        name: [
            f"{name} {plural[name]}",
            f"there are {name} shapes in the picture",
            f"a scene with {index + 1} items",
            f"the number of objects is {name}",
            f"{name} small {plural[name]} on a dark background",
        ]
        for index, name in enumerate(COUNTS)
    }
    wordnet = {name: [f"number, {index + 1}"] for index, name in enumerate(COUNTS)}
    return Texts(("a photo of {} objects.", "{} things."), COUNTS, {"wordnet": wordnet, "gpt3": gpt3})


def _colours() -> Texts:
    sentences = {
        "same colors": ("all objects have the same color", "every object is equal in color"),
        "different colors": ("one object has a different color", "not all objects have the same color"),
    }
    gpt3 = {
        name: [first, second, f"shapes with {name}", f"objects of {name}", f"{name} in one picture"]
        for name, (first, second) in sentences.items()
    }
    return Texts(("a photo of objects of {}.",), tuple(sentences), {"gpt3": gpt3})


def _shapes() -> Texts:
    names = ("circle", "square", "triangle", "diamond", "cross", "star")
    lines = {"circle": 0, "square": 4, "triangle": 3, "diamond": 4, "cross": 2, "star": 5}
    wiktionary = {name: [f"a shape with {lines[name]} sides"] for name in names if lines[name]}
    wordnet = {name: [f"{name}, shape, thing, object", f"a {name}"] for name in names}
    gpt3 = {
        name: [f"a picture with a {name}", f"one or two {name} shapes", f"a {name} and another object",
               f"there is a {name}", f"a {name} of any color"]
        for name in names
    }  # fmt: skip
    return Texts(
        ("a photo of a {}.", "there is a {} in the picture."),
        names,
        {"wiktionary": wiktionary, "wordnet": wordnet, "gpt3": gpt3},
    )


TEXTS: dict[str, Texts] = {
    "makers": _makers(),
    "things": _things(),
    "textures": _textures(),
    "counting": _counting(),
    "colours": _colours(),
    "shapes": _shapes(),
}
"""Of each set below, by its name."""


_SHOWN = SHAPES[:6]


def makers(limit: int | None = None) -> DrawnSet:
    """Marks of sixteen makers: colour, material and shape together say whose it is; the names say nothing."""

    def look(rng: np.random.Generator, maker: tuple[str, str, str]) -> Scene:
        material, colour, shape = maker
        radius = float(rng.uniform(0.16, 0.26))
        x, y = rng.uniform(radius, 1 - radius, 2).tolist()
        mark = Item(shape, colour, "large", material, x, y, radius, float(rng.uniform(-0.26, 0.26)))
        return Scene((mark,), sample_scene(rng, 0).background)

    return in_turn("makers", limit, (880, 16, 160), list(MAKERS.values()), look, tuple(MAKERS), noise=0.08)


def things(limit: int | None = None) -> DrawnSet:
    """Forty things by colour and shape, one large among small ones: many classes."""

    def look(rng: np.random.Generator, kind: tuple[str, str]) -> Scene:
        colour, shape = kind
        small = sample_scene(rng, (0, 2), sizes=["small"], max_overlap=0.3)
        radius = float(rng.uniform(0.16, 0.22))
        x, y = rng.uniform(radius, 1 - radius, 2).tolist()
        large = Item(shape, colour, "large", str(rng.choice(MATERIALS)), x, y, radius, float(rng.uniform(-0.26, 0.26)))
        return Scene((large, *small.items), small.background)

    kinds = list(product(COLOURS[:8], SHAPES[:5]))
    return in_turn("things", limit, (2080, 40, 240), kinds, look, THINGS, noise=0.1)


def textures(limit: int | None = None) -> DrawnSet:
    """What things are made of, whatever their colour and shape."""

    def look(rng: np.random.Generator, material: str) -> Scene:
        return sample_scene(rng, (2, 3), materials=[material], sizes=["large"])

    return in_turn("textures", limit, (240, 8, 120), MATERIALS, look, MATERIALS, noise=0.08)


def counting(limit: int | None = None) -> DrawnSet:
    """How many objects there are, from one to six."""

    def look(rng: np.random.Generator, number: int) -> Scene:
        return sample_scene(rng, number, sizes=["small"])

    numbers = range(1, len(COUNTS) + 1)
    return in_turn("counting", limit, (330, 12, 120), numbers, look, COUNTS, noise=0.06)


def colours(limit: int | None = None) -> DrawnSet:
    """Whether all objects have one colour, or one of them another: two classes, scored by their ranking."""

    def look(rng: np.random.Generator, different: bool) -> Scene:
        first, second = (str(name) for name in rng.choice(COLOURS, 2, replace=False))
        base = sample_scene(rng, 4, sizes=["small"], colours=[first])
        odd, *others = base.items
        return Scene((replace(odd, colour=second) if different else odd, *others), base.background)

    classes = ("same colors", "different colors")
    return in_turn("colours", limit, (120, 8, 120), (False, True), look, classes, noise=0.05)


def shapes(limit: int | None = None) -> DrawnSet:
    """Which of six shapes are in the image, from one to three of them: several labels."""

    def make(rng: np.random.Generator, index: int) -> Made:
        kinds = {int(index % len(_SHOWN)), *rng.integers(0, len(_SHOWN), int(rng.integers(0, 3))).tolist()}
        sizes = "large" if len(kinds) < 3 else "small"
        parts = [sample_scene(rng, 1, shapes=[_SHOWN[kind]], sizes=[sizes]) for kind in sorted(kinds)]
        items = _apart([part.items[0] for part in parts], rng)
        return Made(Scene(items, parts[0].background), [int(kind in kinds) for kind in range(len(_SHOWN))])

    return data_of("shapes", limit, (420, 24, 120), make, _SHOWN, noise=0.06, targets=as_values)


def _apart(items: list[Item], rng: np.random.Generator) -> tuple[Item, ...]:
    """The same items in corners of their own, so that none hides another."""
    corners = rng.permutation([(0.28, 0.28), (0.72, 0.28), (0.28, 0.72), (0.72, 0.72)])[: len(items)]
    return tuple(
        replace(item, x=x, y=y, scale=min(item.scale or 0.2, 0.2))
        for item, (x, y) in zip(items, (corners + rng.uniform(-0.06, 0.06, corners.shape)).tolist(), strict=True)
    )
