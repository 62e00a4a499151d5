"""Random minimal pairs of floor scenes: one attribute of one object, one object more, or two objects exchanged.

Captions are written from three templates, one for each aspect of Eq-Kubric, read back, and checked against any scene
graph; what changes between the two captions of a pair is one word, or the words of one relation:

    There is a small red metal cube and a blue vase on the floor.
    There are three red cubes on the floor.
    The red cube is to the left of the blue vase.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eqben_builder.engines.scene import (
    COLOURS,
    FIELDS,
    FLOORS,
    INVERSE,
    MATERIALS,
    RELATIONS,
    SIZES,
    FloorScene,
    Stage,
    Thing,
    exchanged,
    outline,
    scene_changes,
)
from eqben_builder.micro.minimal import (
    NUMBERS,
    Difference,
    Existence,
    NounPhrase,
    Number,
    Pair,
    Relationship,
    draw_pair,
    one_difference,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np

_ADJECTIVES = {"size": tuple(SIZES), "colour": tuple(COLOURS), "material": MATERIALS}


class Phrase(NounPhrase):
    """A noun phrase: (field, value) pairs in the order of `FIELDS`; the shape is always named."""

    @classmethod
    def of(cls, thing: Thing, fields: Sequence[str]) -> Phrase:
        """The phrase that names these fields of an object; those that it does not have are left out."""
        named = {*fields, "shape"}
        return cls(tuple((f, getattr(thing, f)) for f in FIELDS if f in named and getattr(thing, f)))

    def text(self) -> str:
        """As "small red cube"."""
        return " ".join(value for _, value in self.named)

    def plural_text(self) -> str:
        """As "small red cubes"."""
        return " ".join([*(value for _, value in self.named[:-1]), plural(self.named[-1][1])])


class Present(Existence[Phrase]):
    """There are distinct objects, one for each phrase."""

    def text(self) -> str:
        """As "There is a red cube and a vase on the floor."."""
        return f"There is {' and '.join(_with_article(phrase.text()) for phrase in self.phrases)} on the floor."


class Counted(Number[Phrase]):
    """Exactly `number` objects match the phrase; 2 to 10."""

    def text(self) -> str:
        """As "There are three red cubes on the floor."."""
        return f"There are {NUMBERS[self.number]} {self.phrase.plural_text()} on the floor."


class Placed(Relationship[Phrase]):
    """Some object that matches `subject` stands in `relation` to some object that matches `object`."""

    def text(self) -> str:
        """As "The red cube is behind the blue vase."."""
        return f"The {self.subject.text()} is {self.relation} the {self.object.text()}."


Statement = Present | Counted | Placed


def plural(noun: str) -> str:
    """The regular plural of a noun."""
    if re.search(r"(s|x|z|ch|sh)$", noun):
        return f"{noun}es"
    if re.search(r"[^aeiou]y$", noun):
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def _with_article(text: str) -> str:
    return f"{'an' if text[0] in 'aeiou' else 'a'} {text}"


def parse(text: str, nouns: Iterable[str]) -> Statement:
    """Read one caption, which may name these nouns; a `ValueError` quotes the part that is not of the templates."""
    names = sorted(set(nouns), key=len, reverse=True)
    if match := re.fullmatch(r"There is (an? .+) on the floor\.", text):
        parts = re.split(r" and (?=an? )", match[1])
        return Present(tuple(_phrase(re.sub(r"^an? ", "", part), names, text) for part in parts))
    if match := re.fullmatch(rf"There are ({'|'.join(NUMBERS[2:])}) (.+) on the floor\.", text):
        return Counted(NUMBERS.index(match[1]), _phrase(match[2], names, text, many=True))
    if match := re.fullmatch(rf"The (.+?) is ({'|'.join(RELATIONS)}) the (.+)\.", text):
        return Placed(_phrase(match[1], names, text), match[2], _phrase(match[3], names, text))
    raise ValueError(f"caption {text!r} is of none of the templates")


def _phrase(part: str, nouns: Sequence[str], text: str, *, many: bool = False) -> Phrase:
    for noun in nouns:
        ending = plural(noun) if many else noun
        if part != ending and not part.endswith(f" {ending}"):
            continue
        words = part[: len(part) - len(ending)].split()
        named = []
        for field, values in _ADJECTIVES.items():
            if words and words[0] in values:
                named.append((field, words.pop(0)))
        if not words:
            return Phrase((*named, ("shape", noun)))
    raise ValueError(f"caption {text!r}: cannot read the noun phrase {part!r}")


ASPECTS: tuple[str, ...] = ("attribute", "counting", "location")
#: Half the width and half the depth of the floor on which objects may stand, in metres.
ROOM = (1.6, 1.9)
#: Largest number of alike objects in a counting pair.
MOST = 6
#: What an attribute pair may change.
CHANGEABLE: tuple[str, ...] = ("size", "colour", "material")
_PLACEMENTS = 60
_TURN = 0.8


@dataclass(frozen=True)
class Choices:
    """What scenes may be made of.

    Args:
        shapes: Nouns.
        textured: Those of them that have a texture of their own, and so neither colour nor material.
        colours: Some of `COLOURS`.
        materials: Some of `MATERIALS`.
        fields: Attributes that may change: some of "size", "colour", "material".
    """

    shapes: tuple[str, ...]
    textured: frozenset[str] = frozenset()
    colours: tuple[str, ...] = tuple(COLOURS)
    materials: tuple[str, ...] = MATERIALS
    fields: tuple[str, ...] = CHANGEABLE


def _pick(rng: np.random.Generator, values: Sequence[Any]) -> Any:
    return values[int(rng.random() * len(values))]


def sample_stage(rng: np.random.Generator) -> Stage:
    """A floor, a light and a camera."""
    level = 0.28 + 0.34 * rng.random()
    tone = tuple(round(level * (0.85 + 0.3 * rng.random()), 4) for _ in range(3))
    azimuth = round(math.pi * (0.55 + 0.9 * rng.random()), 4)
    return Stage(
        _pick(rng, FLOORS),
        (tone[0], tone[1], tone[2]),
        azimuth,
        round(0.8 + 0.35 * rng.random(), 4),
        round(0.52 + 0.2 * rng.random(), 4),
    )


def _turn(rng: np.random.Generator) -> float:
    """So little that a flat object, such as a heart, still shows what it is."""
    return round(_TURN * (2 * rng.random() - 1), 4)


def _thing(rng: np.random.Generator, choices: Choices, **fixed: Any) -> Thing:
    shape = fixed.pop("shape", None) or _pick(rng, choices.shapes)
    own = shape in choices.textured
    values = {
        "colour": "" if own else _pick(rng, choices.colours),
        "size": _pick(rng, tuple(SIZES)),
        "material": "" if own else _pick(rng, choices.materials),
        "turn": _turn(rng),
    }
    return Thing(shape, x=0.0, y=0.0, **(values | fixed))


def _clear(thing: Thing, standing: Sequence[Thing], stage: Stage) -> bool:
    """Whether the object lies in the image and apart from the others, on the floor and as the camera sees it."""
    own = outline(thing, stage)
    if not own.inside:
        return False
    for neighbour in standing:
        if math.hypot(thing.x - neighbour.x, thing.y - neighbour.y) < thing.radius + neighbour.radius + 0.06:
            return False
        shape = outline(neighbour, stage)
        if math.hypot(own.x - shape.x, own.y - shape.y) < 0.86 * (own.radius + shape.radius):
            return False
    return True


def _placed(rng: np.random.Generator, things: Sequence[Thing], stage: Stage) -> tuple[Thing, ...] | None:
    """The objects at random places that keep them apart, or None where they do not fit."""
    standing: list[Thing] = []
    for thing in things:
        for _ in range(_PLACEMENTS):
            x, y = (round((2 * rng.random() - 1) * half, 3) for half in ROOM)
            moved = replace(thing, x=x, y=y)
            if _clear(moved, standing, stage):
                standing.append(moved)
                break
        else:
            return None
    return tuple(standing)


def _attribute(rng: np.random.Generator, choices: Choices) -> Pair[FloorScene] | None:
    things = [_thing(rng, choices, size="large") for _ in range(1 + int(rng.random() * 4))]
    stage = sample_stage(rng)
    standing = _placed(rng, things, stage)
    if standing is None:
        return None
    # Placed as if all were large, so that each may become so.
    things = [replace(thing, size=_pick(rng, tuple(SIZES))) for thing in standing]
    chosen, field = things[0], _pick(rng, choices.fields)
    allowed = {"size": tuple(SIZES), "colour": choices.colours, "material": choices.materials}[field]
    alternatives = [value for value in allowed if value != getattr(chosen, field)]
    if not getattr(chosen, field) or not alternatives:
        return None
    change: dict[str, Any] = {field: _pick(rng, alternatives)}
    changed = replace(chosen, **change)
    named = [name for name in FIELDS if name == field or rng.random() < 0.5]
    statements = []
    also = [Phrase.of(things[1], [n for n in FIELDS if rng.random() < 0.5])] if len(things) > 1 else []
    also = also if rng.random() < 0.6 else []
    for thing in (chosen, changed):
        statements.append(Present((Phrase.of(thing, named), *also)).text())
    scenes = [FloorScene((thing, *things[1:]), stage) for thing in (chosen, changed)]
    return Pair(scenes[0], scenes[1], statements[0], statements[1], "attribute")


def _counting(rng: np.random.Generator, choices: Choices) -> Pair[FloorScene] | None:
    number = 3 + int(rng.random() * (MOST - 2))
    model = _thing(rng, choices, size="small" if number > 4 or rng.random() < 0.6 else "large")
    alike = [replace(model, turn=_turn(rng)) for _ in range(number)]
    distractors = [_thing(rng, choices, size="small") for _ in range(int(rng.random() * 3))] if number < MOST else []
    stage = sample_stage(rng)
    standing = _placed(rng, [*alike, *distractors], stage)
    if standing is None:
        return None
    phrase = Phrase.of(model, [name for name in ("colour", "material") if rng.random() < 0.6])
    more, less = FloorScene(standing, stage), FloorScene(standing[1:], stage)
    counts = [sum(map(phrase.matches, scene.things)) for scene in (more, less)]
    if counts[0] > MOST:
        return None
    texts = [Counted(count, phrase).text() for count in counts]
    return Pair(more, less, texts[0], texts[1], "counting")


def _location(rng: np.random.Generator, choices: Choices) -> Pair[FloorScene] | None:
    first, second = _thing(rng, choices), _thing(rng, choices)
    stage = sample_stage(rng)
    # Placed as if both had the larger radius, so that they can change places.
    largest = max(first, second, key=lambda thing: thing.radius).size
    places = _placed(rng, [replace(thing, size=largest) for thing in (first, second)], stage)
    if places is None:
        return None
    standing = [replace(item, size=thing.size) for item, thing in zip(places, (first, second), strict=True)]
    scene = FloorScene((standing[0], standing[1]), stage)
    if not scene.relations():
        return None
    subject = int(rng.random() * 2)
    fields = [name for name in FIELDS if rng.random() < (0.8 if name == "colour" else 0.35)]
    phrases = [Phrase.of(scene.things[k], fields) for k in (subject, 1 - subject)]
    relation = next(r.relation for r in scene.relations() if r.subject == subject)
    texts = [Placed(phrases[0], r, phrases[1]).text() for r in (relation, INVERSE[relation])]
    return Pair(scene, exchanged(scene, 0, 1), texts[0], texts[1], "location")


def scene_pair(rng: np.random.Generator, aspect: str, choices: Choices) -> Pair[FloorScene] | None:
    """Draw a pair of scenes that `check_pair` passes, in random order; None where 200 draws gave none."""
    makers = {"attribute": _attribute, "counting": _counting, "location": _location}
    if aspect not in makers:
        raise ValueError(f"aspect {aspect!r} is not one of {', '.join(ASPECTS)}")
    return draw_pair(rng, lambda: makers[aspect](rng, choices), check_pair)


def check_pair(pair: Pair[FloorScene]) -> Difference:
    """The one difference; a `ValueError` unless each caption is true of its own scene and false of the other."""
    nouns = {thing.shape for scene in (pair.scene0, pair.scene1) for thing in scene.things}
    return one_difference(pair, scene_changes(pair.scene0, pair.scene1), lambda text: parse(text, nouns))
