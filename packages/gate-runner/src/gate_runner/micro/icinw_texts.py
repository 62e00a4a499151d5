"""Templates, class names and knowledge of the micro world's sets for ELEVATER's grid; nothing here needs NumPy.

The knowledge has ELEVATER's three forms: a dictionary's definition, WordNet's path and definition, and five sentences
as a language model writes them. It was written for these sets. As with the real sets, dictionaries do not know every
name: no dictionary lists "red circle", and only the sentences cover all classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
    """What is said of a set's classes.

    Args:
        templates: with ``{}`` for the name.
        classes: names, in the order of their indices.
        knowledge: by source (``wiktionary``, ``wordnet``, ``gpt3``) and name, pieces of knowledge; a class that a
            source does not know is absent.
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


def _digits() -> Texts:
    spelt = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    wordnet = {str(number): [f"{word}, digit, number", f"the number {word}"] for number, word in enumerate(spelt)}
    return Texts(('a photo of the number: "{}".',), tuple(str(number) for number in range(10)), {"wordnet": wordnet})


TEXTS: dict[str, Texts] = {
    "icinw-makers": _makers(),
    "icinw-things": _things(),
    "icinw-textures": _textures(),
    "icinw-counting": _counting(),
    "icinw-colours": _colours(),
    "icinw-shapes": _shapes(),
    "digits": _digits(),
}
"""By the benchmark's id."""
