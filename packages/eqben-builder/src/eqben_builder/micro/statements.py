"""What a caption or a question can say, as data: drawn, written, read back, and checked against a scene graph."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from eqben_builder.micro.attributes import FIELDS, PLURALS, RELATIONS
from eqben_builder.micro.minimal import NUMBERS, Existence, NounPhrase, Number, Relationship
from eqben_builder.micro.scene import Item, Scene

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

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


class Phrase(NounPhrase):
    """A noun phrase: (field, value) pairs in the order of `FIELDS`; without a shape its noun is "object".

    Example:
        >>> from eqben_builder.micro import Item
        >>> phrase = Phrase.of(Item("star", "red", "small", "plain", 0.2, 0.5), ["colour", "shape"])
        >>> phrase.text(plural=True), phrase.with_article(), Phrase().with_article()
        ('red stars', 'a red star', 'an object')
    """

    @classmethod
    def of(cls, item: Item, fields: Sequence[str]) -> Phrase:
        """The phrase that names these fields of an item."""
        return cls(tuple((field, getattr(item, field)) for field in FIELDS if field in fields))

    def text(self, *, plural: bool = False) -> str:
        """The phrase without an article."""
        words = [value for field, value in self.named if field != "shape"]
        noun = dict(self.named).get("shape", "object")
        return " ".join([*words, PLURALS[noun] if plural else noun])

    def with_article(self, article: str = "a") -> str:
        """The phrase after "a" (or "an", as its first letter wants) or "the"."""
        text = self.text()
        return f"{'an' if article == 'a' and text[0] in 'aeiou' else article} {text}"


class Exists(Existence[Phrase]):
    """There are distinct items, one for each phrase."""

    def text(self) -> str:
        """As "a red circle, a star and a blue ring"."""
        parts = [phrase.with_article() for phrase in self.phrases]
        return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


class Related(Relationship[Phrase]):
    """Some item that matches `subject` stands in `relation` to some item that matches `object`."""

    def text(self, article: str = "a") -> str:
        """As "a red circle left of a star", or "the red circle is left of the star"."""
        verb = " is" if article == "the" else ""
        return f"{self.subject.with_article(article)}{verb} {self.relation} {self.object.with_article(article)}"


class Count(Number[Phrase]):
    """Exactly `number` items match the phrase; 0 to 10."""

    def text(self) -> str:
        """As "three red circles"."""
        return f"{NUMBERS[self.number]} {self.phrase.text(plural=self.number != 1)}"


Statement = Exists | Related | Count


def parse(text: str) -> Statement:
    """Read one sentence of the captions' grammar."""
    body = re.sub(r"\s+([,.])", r"\1", " ".join(text.lower().split())).removesuffix(".").strip()
    for prefix in sorted(PREFIXES, key=len, reverse=True):
        if body.startswith(prefix):
            body = body[len(prefix) :]
            break
    first, _, remainder = body.partition(" ")
    if first in NUMBERS:
        return Count(NUMBERS.index(first), _phrase(remainder, text))
    for relation in RELATIONS:
        subject, separator, partner = body.partition(f" {relation} ")
        if separator:
            return Related(_phrase(subject.removesuffix(" is"), text), relation, _phrase(partner, text))
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


#: How often a caption names each field.
_NAMED = {"size": 0.35, "material": 0.5, "colour": 0.85, "shape": 0.92}
_KINDS = ("exists", "relation", "count")


def caption(scene: Scene, rng: np.random.Generator, *, kind: str | None = None) -> str:
    """Write one true sentence about a scene.

    Args:
        scene: At most ten items.
        rng: The only source of randomness.
        kind: "exists" ("a large striped red circle and a star"), "relation" ("a red circle left of a small blue star"),
            "count" ("three circles"), or None to draw one of them. A scene without relations gets no "relation", and
            an empty one a "count".

    Returns:
        Text of the grammar that `parse` reads, in lower case, without a full stop.

    Raises:
        ValueError: An unknown kind, or a scene of more than ten items.

    Example:
        >>> import numpy as np
        >>> from eqben_builder.micro import Item
        >>> scene = Scene((Item("star", "red", "small", "plain", 0.5, 0.5),))
        >>> holds = caption(scene, np.random.default_rng(0), kind="count")
        >>> "one" in holds
        True
    """
    if kind is not None and kind not in _KINDS:
        raise ValueError(f"kind {kind!r} is not one of {', '.join(_KINDS)}")
    if len(scene.items) > 10:
        raise ValueError(f"scene has {len(scene.items)} items; expected at most ten, as captions count no further")
    drawn = kind or _KINDS[int(rng.random() * 3)]
    if not scene.items:
        drawn = "count"
    relations = scene.relations() if drawn == "relation" else ()
    if drawn == "relation" and relations:
        i, relation, j = relations[int(rng.random() * len(relations))]
        subject, partner = (Phrase.of(scene.items[k], _fields(rng)) for k in (i, j))
        definite = rng.random() < 0.3
        body = Related(subject, relation, partner).text("the" if definite else "a")
        return body if definite else _prefix(rng, plural=False) + body
    statement: Statement
    if drawn == "count":
        statement = _count(scene, rng)
        return _prefix(rng, plural=statement.number != 1) + statement.text()
    order = rng.permutation(len(scene.items))[: 1 + int(rng.random() * 4) if rng.random() < 0.3 else 4]
    statement = Exists(tuple(Phrase.of(scene.items[k], _fields(rng)) for k in order))
    return _prefix(rng, plural=False) + statement.text()


def question(scene: Scene, rng: np.random.Generator) -> tuple[str, str]:
    """Ask one question about a scene, with its answer.

    Args:
        scene: At most ten items.
        rng: The only source of randomness.

    Returns:
        The question, ending in " ?", and one word: a number, "yes" or "no", or an attribute's value. Forms: counts,
        counts of two shapes together, what is left when some are subtracted, existence, and an attribute of an object
        that the question's phrase singles out.

    Example:
        >>> import numpy as np
        >>> from eqben_builder.micro import Item
        >>> scene = Scene((Item("star", "red", "small", "plain", 0.5, 0.5),))
        >>> text, answer = question(scene, np.random.default_rng(1))
        >>> text.endswith(" ?")
        True
    """
    if len(scene.items) > 10:
        raise ValueError(f"scene has {len(scene.items)} items; answers count to ten")
    form = int(rng.random() * 5)
    total = len(scene.items)
    if form == 4 and total:
        target = _single_out(scene, rng)
        if target is not None:
            return target
    if form == 3:
        phrase = Phrase.of(_any_item(scene, rng), _fields(rng))
        present = any(phrase.matches(item) for item in scene.items)
        return f"is there {phrase.with_article()} ?", "yes" if present else "no"
    first, second = (_count(scene, rng) for _ in range(2))
    if form == 2:
        remaining = total - first.number
        return f"subtract all {first.phrase.text(plural=True)} . how many objects are left ?", NUMBERS[remaining]
    if form == 1 and first.phrase != second.phrase:
        either = sum(first.phrase.matches(item) or second.phrase.matches(item) for item in scene.items)
        texts = " or ".join(statement.phrase.text(plural=True) for statement in (first, second))
        return f"how many objects are {texts} ?", NUMBERS[either]
    return f"how many {first.phrase.text(plural=True)} are there ?", NUMBERS[first.number]


def _fields(rng: np.random.Generator) -> list[str]:
    draws = rng.random(len(_NAMED)).tolist()
    return [field for (field, share), draw in zip(_NAMED.items(), draws, strict=True) if draw < share]


def _prefix(rng: np.random.Generator, *, plural: bool) -> str:
    unfit = "there is " if plural else "there are "
    fitting = [prefix for prefix in PREFIXES if prefix != unfit]
    return fitting[int(rng.random() * len(fitting))]


def _any_item(scene: Scene, rng: np.random.Generator) -> Item:
    """An item of the scene, or as often one that may not be there."""
    if scene.items and rng.random() < 0.5:
        return scene.items[int(rng.random() * len(scene.items))]
    drawn = {field: values[int(rng.random() * len(values))] for field, values in FIELDS.items()}
    return Item(drawn["shape"], drawn["colour"], drawn["size"], drawn["material"], x=0.5, y=0.5)


def _count(scene: Scene, rng: np.random.Generator) -> Count:
    form = rng.random()
    named = [] if form < 0.25 else ["shape"] if form < 0.55 else ["colour"] if form < 0.75 else ["colour", "shape"]
    if not scene.items:
        named = []
    phrase = Phrase.of(scene.items[int(rng.random() * len(scene.items))], named) if named else Phrase()
    return Count(sum(phrase.matches(item) for item in scene.items), phrase)


def _single_out(scene: Scene, rng: np.random.Generator) -> tuple[str, str] | None:
    item = scene.items[int(rng.random() * len(scene.items))]
    asked_field = list(FIELDS)[int(rng.random() * len(FIELDS))]
    phrase = Phrase.of(item, [field for field in _fields(rng) if field != asked_field])
    if sum(phrase.matches(candidate) for candidate in scene.items) != 1:
        return None
    return f"what {asked_field} is {phrase.with_article('the')} ?", getattr(item, asked_field)
