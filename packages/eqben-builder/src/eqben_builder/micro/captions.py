"""Captions and questions about a scene, drawn from templates and true of its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eqben_builder.micro.attributes import FIELDS, NUMBERS
from eqben_builder.micro.scene import Item, Scene
from eqben_builder.micro.statements import PREFIXES, Count, Exists, Phrase, Related, Statement

if TYPE_CHECKING:
    import numpy as np

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
        raise ValueError(f"scene has {len(scene.items)} items; captions count to ten")
    drawn = kind or _KINDS[int(rng.random() * 3)]
    if not scene.items:
        drawn = "count"
    relations = scene.relations() if drawn == "relation" else ()
    if drawn == "relation" and relations:
        i, relation, j = relations[int(rng.random() * len(relations))]
        subject, other = (Phrase.of(scene.items[k], _fields(rng)) for k in (i, j))
        definite = rng.random() < 0.3
        body = Related(subject, relation, other).text("the" if definite else "a")
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
        asked = _single_out(scene, rng)
        if asked is not None:
            return asked
    if form == 3:
        phrase = Phrase.of(_any_item(scene, rng), _fields(rng))
        present = any(phrase.matches(item) for item in scene.items)
        return f"is there {phrase.with_article()} ?", "yes" if present else "no"
    first, second = (_count(scene, rng) for _ in range(2))
    if form == 2:
        left = total - first.number
        return f"subtract all {first.phrase.text(plural=True)} . how many objects are left ?", NUMBERS[left]
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
    asked = list(FIELDS)[int(rng.random() * len(FIELDS))]
    phrase = Phrase.of(item, [field for field in _fields(rng) if field != asked])
    if sum(phrase.matches(other) for other in scene.items) != 1:
        return None
    return f"what {asked} is {phrase.with_article('the')} ?", getattr(item, asked)
