"""Captions of floor scenes: written from templates, read back, and checked against any scene graph.

Three templates, one for each aspect of Eq-Kubric; what changes between the two captions of a pair is one word, or the
words of one relation:

    There is a small red metal cube and a blue vase on the floor.
    There are three red cubes on the floor.
    The red cube is to the left of the blue vase.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from eqben_builder.engines.scene import COLOURS, FIELDS, MATERIALS, RELATIONS, SIZES
from eqben_builder.micro.minimal import NUMBERS, Existence, NounPhrase, Number, Relationship

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from eqben_builder.engines.scene import Thing

_ADJECTIVES = {"size": tuple(SIZES), "colour": tuple(COLOURS), "material": MATERIALS}


class Phrase(NounPhrase):
    """A noun phrase: (field, value) pairs in the order of `FIELDS`; the shape is always named.

    Example:
        >>> from eqben_builder.kubric import Thing
        >>> phrase = Phrase.of(Thing("cube", "red", "small", "rubber", 0, 0), ["colour"])
        >>> phrase.text(), phrase.plural_text(), phrase.matches(Thing("cube", "red", "large", "metal", 1, 1))
        ('red cube', 'red cubes', True)
    """

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
    """There are distinct objects, one for each phrase.

    Example:
        >>> from eqben_builder.kubric import FloorScene, Thing
        >>> red, blue = (Thing("cube", colour, "small", "rubber", x, 0) for colour, x in (("red", -1), ("blue", 1)))
        >>> scene = FloorScene((red, blue))
        >>> present = Present((Phrase.of(red, ["colour"]), Phrase.of(blue, [])))
        >>> present.text(), present.holds(scene), present.holds(FloorScene((red,)))
        ('There is a red cube and a cube on the floor.', True, False)
    """

    def text(self) -> str:
        """As "There is a red cube and a vase on the floor."."""
        return f"There is {' and '.join(_with_article(phrase.text()) for phrase in self.phrases)} on the floor."


class Counted(Number[Phrase]):
    """Exactly `number` objects match the phrase; 2 to 10.

    Example:
        >>> from eqben_builder.kubric import FloorScene, Thing
        >>> red, blue = (Thing("cube", colour, "small", "rubber", x, 0) for colour, x in (("red", -1), ("blue", 1)))
        >>> scene = FloorScene((red, blue))
        >>> two = Counted(2, Phrase((("shape", "cube"),)))
        >>> two.text(), two.holds(scene)
        ('There are two cubes on the floor.', True)
    """

    def text(self) -> str:
        """As "There are three red cubes on the floor."."""
        return f"There are {NUMBERS[self.number]} {self.phrase.plural_text()} on the floor."


class Placed(Relationship[Phrase]):
    """Some object that matches `subject` stands in `relation` to some object that matches `object`.

    Example:
        >>> from eqben_builder.kubric import FloorScene, Thing
        >>> red, blue = (Thing("cube", colour, "small", "rubber", x, 0) for colour, x in (("red", -1), ("blue", 1)))
        >>> scene = FloorScene((red, blue))
        >>> placed = Placed(Phrase.of(red, ["colour"]), "to the left of", Phrase.of(blue, ["colour"]))
        >>> placed.text(), placed.holds(scene)
        ('The red cube is to the left of the blue cube.', True)
    """

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
    """Read one caption.

    Args:
        text: One sentence of the three templates.
        nouns: Shapes that it may name, in the singular; some may have several words.

    Raises:
        ValueError: The caption, and the part of it that is not of the templates.

    Example:
        >>> parse("There are two red toy cars on the floor.", ["toy car", "cube"]).number
        2
    """
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
