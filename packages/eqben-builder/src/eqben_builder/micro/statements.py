"""What a caption can say, as data: written as text, read back from text, and checked against a scene graph."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

from eqben_builder.micro.attributes import FIELDS, NUMBERS, PLURALS, RELATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eqben_builder.micro.scene import Item, Scene

PREFIXES: tuple[str, ...] = (
    "",
    "a photo of ",
    "a picture of ",
    "an image of ",
    "an image with ",
    "a scene with ",
    "there is ",
    "there are ",
)

_FIELD_OF = {value: field for field, values in FIELDS.items() for value in values}
_SINGULAR = {plural: noun for noun, plural in PLURALS.items()}


@dataclass(frozen=True)
class Phrase:
    """A noun phrase: (field, value) pairs in the order of `FIELDS`; without a shape its noun is "object".

    Example:
        >>> from eqben_builder.micro import Item
        >>> phrase = Phrase.of(Item("star", "red", "small", "plain", 0.2, 0.5), ["colour", "shape"])
        >>> phrase.text(plural=True), phrase.with_article(), Phrase().with_article()
        ('red stars', 'a red star', 'an object')
    """

    named: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, item: Item, fields: Sequence[str]) -> Phrase:
        """The phrase that names these fields of an item."""
        return cls(tuple((field, getattr(item, field)) for field in FIELDS if field in fields))

    def matches(self, item: Item) -> bool:
        """Whether the item has every value that the phrase names."""
        return all(getattr(item, field) == value for field, value in self.named)

    def text(self, *, plural: bool = False) -> str:
        """The phrase without an article."""
        words = [value for field, value in self.named if field != "shape"]
        noun = dict(self.named).get("shape", "object")
        return " ".join([*words, PLURALS[noun] if plural else noun])

    def with_article(self, article: str = "a") -> str:
        """The phrase after "a" (or "an", as its first letter wants) or "the"."""
        text = self.text()
        return f"{'an' if article == 'a' and text[0] in 'aeiou' else article} {text}"


@dataclass(frozen=True)
class Exists:
    """There are distinct items, one for each phrase.

    Example:
        >>> from eqben_builder.micro import Item, Scene
        >>> star = Item("star", "red", "small", "plain", 0.2, 0.5)
        >>> ring = Item("ring", "blue", "small", "plain", 0.8, 0.5)
        >>> exists = Exists((Phrase.of(star, ["colour", "shape"]), Phrase.of(ring, ["shape"])))
        >>> exists.text(), exists.holds(Scene((star, ring))), exists.holds(Scene((star, star)))
        ('a red star and a ring', True, False)
    """

    phrases: tuple[Phrase, ...]

    def holds(self, scene: Scene) -> bool:
        """Whether distinct items of the scene match the phrases."""
        return any(
            all(phrase.matches(item) for phrase, item in zip(self.phrases, chosen, strict=True))
            for chosen in permutations(scene.items, len(self.phrases))
        )

    def text(self) -> str:
        """As "a red circle, a star and a blue ring"."""
        parts = [phrase.with_article() for phrase in self.phrases]
        return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


@dataclass(frozen=True)
class Related:
    """Some item that matches `subject` stands in `relation` to some item that matches `object`.

    Example:
        >>> from eqben_builder.micro import Item, Scene
        >>> star = Item("star", "red", "small", "plain", 0.2, 0.5)
        >>> ring = Item("ring", "blue", "small", "plain", 0.8, 0.5)
        >>> related = Related(Phrase.of(star, ["shape"]), "left of", Phrase.of(ring, ["shape"]))
        >>> related.text(), related.text("the"), related.holds(Scene((star, ring)))
        ('a star left of a ring', 'the star is left of the ring', True)
    """

    subject: Phrase
    relation: str
    object: Phrase

    def holds(self, scene: Scene) -> bool:
        """Whether the graph has such a relation."""
        return any(
            relation == self.relation and self.subject.matches(scene.items[i]) and self.object.matches(scene.items[j])
            for i, relation, j in scene.relations()
        )

    def text(self, article: str = "a") -> str:
        """As "a red circle left of a star", or "the red circle is left of the star"."""
        verb = " is" if article == "the" else ""
        return f"{self.subject.with_article(article)}{verb} {self.relation} {self.object.with_article(article)}"


@dataclass(frozen=True)
class Count:
    """Exactly `number` items match the phrase; 0 to 10.

    Example:
        >>> from eqben_builder.micro import Item, Scene
        >>> star = Item("star", "red", "small", "plain", 0.2, 0.5)
        >>> ring = Item("ring", "blue", "small", "plain", 0.8, 0.5)
        >>> count = Count(1, Phrase((("colour", "red"),)))
        >>> count.text(), count.holds(Scene((star, ring)))
        ('one red object', True)
    """

    number: int
    phrase: Phrase

    def holds(self, scene: Scene) -> bool:
        """Whether that many items match."""
        return sum(self.phrase.matches(item) for item in scene.items) == self.number

    def text(self) -> str:
        """As "three red circles"."""
        return f"{NUMBERS[self.number]} {self.phrase.text(plural=self.number != 1)}"


Statement = Exists | Related | Count


def parse(text: str) -> Statement:
    """Read one sentence of the captions' grammar.

    Args:
        text: One of `PREFIXES`, then noun phrases joined by commas and "and", or two joined by a relation, or a number
            and a noun phrase. Case, spaces and a full stop at the end do not matter.

    Returns:
        What it says.

    Raises:
        ValueError: The text and the part of it that is not of the grammar.

    Example:
        >>> parse("a photo of three red circles").number
        3
    """
    body = re.sub(r"\s+([,.])", r"\1", " ".join(text.lower().split())).removesuffix(".").strip()
    for prefix in sorted(PREFIXES, key=len, reverse=True):
        if body.startswith(prefix):
            body = body[len(prefix) :]
            break
    first, _, rest = body.partition(" ")
    if first in NUMBERS:
        return Count(NUMBERS.index(first), _phrase(rest, text))
    for relation in RELATIONS:
        subject, found, other = body.partition(f" {relation} ")
        if found:
            return Related(_phrase(subject.removesuffix(" is"), text), relation, _phrase(other, text))
    return Exists(tuple(_phrase(part, text) for part in re.split(r", | and ", body)))


def _phrase(part: str, text: str) -> Phrase:
    words = part.split()
    if words and words[0] in ("a", "an", "the"):
        words = words[1:]
    if not words:
        raise ValueError(f"caption {text!r}: a noun phrase is empty")
    *adjectives, noun = words
    noun = _SINGULAR.get(noun, noun)
    named = {}
    for word in adjectives if noun == "object" else [*adjectives, noun]:
        field = _FIELD_OF.get(word)
        if field is None or field in named or (field == "shape") != (word == noun):
            raise ValueError(f"caption {text!r}: {word!r} cannot stand in the noun phrase {part!r}")
        named[field] = word
    if noun != "object" and "shape" not in named:
        raise ValueError(f"caption {text!r}: {noun!r} is no shape, in the noun phrase {part!r}")
    return Phrase(tuple((field, named[field]) for field in FIELDS if field in named))


def holds(text: str, scene: Scene) -> bool:
    """Whether a caption is true of a scene graph.

    Example:
        >>> from eqben_builder.micro import Item, Scene
        >>> scene = Scene((Item("star", "red", "small", "plain", 0.5, 0.5),))
        >>> holds("a photo of a red star", scene), holds("two stars", scene)
        (True, False)
    """
    return parse(text).holds(scene)
