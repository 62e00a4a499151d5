"""Minimal pairs: two scenes that differ in exactly one thing, and two captions that each fit only one of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from eqben_builder.micro.attributes import AXIS, DEPTH, FIELDS
from eqben_builder.micro.minimal import Difference, Pair, Relation, count_difference, draw_pair, one_difference
from eqben_builder.micro.raster import render
from eqben_builder.micro.sampling import sample_scene
from eqben_builder.micro.scene import Item, Scene
from eqben_builder.micro.statements import Count, Exists, Phrase, Related, parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

Kind = Literal["attribute", "count", "relation"]
KINDS: tuple[Kind, ...] = ("attribute", "count", "relation")

#: Of 64 x 64. Two plain items of one colour may exchange their depth without any trace.
MIN_CHANGED_PIXELS = 6

_TRIES = 200
_PLACE = ("x", "y", "scale", "angle")


def scene_difference(scene0: Scene, scene1: Scene) -> tuple[Difference, ...]:
    """List what differs between two scenes; equal scenes give nothing, a minimal pair exactly one entry.

    An exchange of two items' places is one "relation", named by the axis on which they stand; so is an exchange of
    neighbours in the painter's order, where one hides part of the other. One item too many is one "count".
    A "size" covers the scale that goes with it.
    """
    differences = []
    if scene0.background != scene1.background:
        differences.append(Difference("background", "background", ()))
    a, b = scene0.items, scene1.items
    if len(a) != len(b):
        return (*differences, count_difference("count", a, b, "items"))
    changed = [i for i in range(len(a)) if a[i] != b[i]]
    if len(changed) == 2:
        swapped = _exchange(scene0, scene1, changed[0], changed[1])
        if swapped is not None:
            return (*differences, swapped)
    for i in changed:
        fields = [field for field in (*FIELDS, *_PLACE) if getattr(a[i], field) != getattr(b[i], field)]
        for field in fields:
            if field in FIELDS:
                differences.append(Difference("attribute", field, (i,)))
            elif not (field == "scale" and "size" in fields):
                differences.append(Difference("other", field, (i,)))
    return tuple(differences)


def _exchange(scene0: Scene, scene1: Scene, i: int, j: int) -> Difference | None:
    a, b = scene0.items, scene1.items
    places = replace(a[i], x=a[j].x, y=a[j].y), replace(a[j], x=a[i].x, y=a[i].y)
    relations = {(r.subject, r.object): r.relation for r in scene0.relations() if r.relation not in DEPTH}
    if (b[i], b[j]) == places and (i, j) in relations:
        return Difference("relation", AXIS[relations[i, j]], (i, j))
    if j == i + 1 and (b[i], b[j]) == (a[j], a[i]) and Relation(j, "in front of", i) in scene0.relations():
        return Difference("relation", "depth", (i, j))
    return None


def certify(pair: Pair[Scene]) -> Difference:
    """Check a pair against its own graphs and captions.

    Exactly one thing differs, it is the one that the pair names, each caption is true of its own scene and false of the
    other, a relation's captions use the same words, and the images differ in at least `MIN_CHANGED_PIXELS` pixels.

    Args:
        pair: Any pair whose captions are of the grammar.

    Returns:
        The one difference.

    Raises:
        ValueError: The first condition that fails, with the captions or differences that fail it.

    Example:
        >>> import numpy as np
        >>> certify(minimal_pair(np.random.default_rng(0), "count")).kind
        'count'
    """
    difference = one_difference(pair, scene_difference(pair.scene0, pair.scene1), parse)
    if pair.kind == "relation":
        words = [sorted(text.split()) for text in (pair.caption0, pair.caption1)]
        if words[0] != words[1]:
            raise ValueError(f"a relation's captions must use the same words: {pair.caption0!r}, {pair.caption1!r}")
    drawn = render([pair.scene0, pair.scene1]).images
    changed = int((drawn[0] != drawn[1]).any(axis=-1).sum())
    if changed < MIN_CHANGED_PIXELS:
        raise ValueError(f"the images differ in {changed} pixels of 64 x 64, expected at least {MIN_CHANGED_PIXELS}")
    return difference


def minimal_pair(rng: np.random.Generator, kind: Kind) -> Pair[Scene]:
    """Draw a certified minimal pair.

    "attribute": one to three items, one of which changes its colour, shape, size or material. "count": one object more
    or fewer of a phrase that fits one to six. "relation": two items change places, or their order in depth; both
    captions use the same words.

    Args:
        rng: The only source of randomness.
        kind: One of `KINDS`.

    Returns:
        A pair for which `certify` passes.

    Raises:
        ValueError: An unknown kind.

    Example:
        >>> import numpy as np
        >>> pair = minimal_pair(np.random.default_rng(4), "relation")
        >>> sorted(pair.caption0.split()) == sorted(pair.caption1.split())
        True
    """
    makers = {"attribute": _attribute_pair, "count": _count_pair, "relation": _relation_pair}
    if kind not in makers:
        raise ValueError(f"kind {kind!r} is not one of {', '.join(KINDS)}")
    pair = draw_pair(rng, lambda: makers[kind](rng), certify)
    if pair is None:
        raise RuntimeError(f"no certified pair of kind {kind!r} was drawn")
    return pair


def _with(item: Item, values: Mapping[str, Any]) -> Item:
    """The item with some attributes replaced."""
    return replace(item, **values)


def _inside(item: Item) -> bool:
    return all(item.radius <= coordinate <= 1 - item.radius for coordinate in (item.x, item.y))


def _apart(item: Item, standing: Sequence[Item]) -> bool:
    """Whether the item's circumscribed circle keeps clear of the others', up to a twentieth."""
    return all(
        math.hypot(item.x - neighbour.x, item.y - neighbour.y) >= 0.95 * (item.radius + neighbour.radius)
        for neighbour in standing
    )


def _attribute_pair(rng: np.random.Generator) -> Pair[Scene] | None:
    scene = sample_scene(rng, (1, 3), sizes=("large",))
    items = []
    for item in scene.items:
        size = "small" if rng.random() < 0.5 else "large"
        items.append(replace(item, size=size, scale=None))
    scene = Scene(tuple(items), scene.background)
    k, field = int(rng.random() * len(items)), list(FIELDS)[int(rng.random() * len(FIELDS))]
    alternatives = [value for value in FIELDS[field] if value != getattr(items[k], field)]
    changed = _with(items[k], {field: alternatives[int(rng.random() * len(alternatives))]})
    rivals = scene.items[:k] + scene.items[k + 1 :]
    if not all(_inside(item) and _apart(item, rivals) for item in (items[k], changed)):
        return None
    fields = [name for name in FIELDS if name == field or name == "shape" or rng.random() < 0.6]
    changed_scene = Scene((*scene.items[:k], changed, *scene.items[k + 1 :]), scene.background)
    texts = [Exists((Phrase.of(item, fields),)).text() for item in (items[k], changed)]
    return Pair(scene, changed_scene, texts[0], texts[1], "attribute", field)


def _count_pair(rng: np.random.Generator) -> Pair[Scene]:
    scene = sample_scene(rng, (2, 6), sizes=("small",))
    last = scene.items[-1]
    named = (("shape",), ("colour",), ("colour", "shape"), ())[int(rng.random() * 4)]
    # The others come closer to the phrase, so that counts above one are as common as one.
    alike = [
        _with(item, {field: getattr(last, field) for field in named}) if rng.random() < 0.7 else item
        for item in scene.items
    ]
    k = int(rng.random() * len(alike))
    alike[k] = _with(alike[k], {field: getattr(last, field) for field in named})
    more = Scene(tuple(alike), scene.background)
    less = Scene((*alike[:k], *alike[k + 1 :]), scene.background)
    phrase = Phrase.of(last, named)
    texts = [Count(sum(map(phrase.matches, s.items)), phrase).text() for s in (more, less)]
    return Pair(more, less, texts[0], texts[1], "count", "removed")


def _relation_pair(rng: np.random.Generator) -> Pair[Scene] | None:
    depth = rng.random() < 1 / 3
    for _ in range(_TRIES):
        scene = sample_scene(rng, 2, max_overlap=0.5 if depth else 0.0)
        subject = int(rng.random() * 2)
        relations = [r for r in scene.relations() if r.subject == subject and (r.relation in DEPTH) == depth]
        if relations:
            break
    else:
        return None
    a, b = scene.items
    if depth:
        exchanged = Scene((b, a), scene.background)
    else:
        swapped = replace(a, x=b.x, y=b.y), replace(b, x=a.x, y=a.y)
        if not all(map(_inside, swapped)):
            return None
        exchanged = Scene(swapped, scene.background)
    fields = [name for name in FIELDS if name == "shape" or rng.random() < (0.9 if name == "colour" else 0.35)]
    first, second = Phrase.of(scene.items[subject], fields), Phrase.of(scene.items[1 - subject], fields)
    (relation,) = relations
    texts = [Related(first, relation.relation, second).text(), Related(second, relation.relation, first).text()]
    return Pair(scene, exchanged, texts[0], texts[1], "relation", AXIS[relation.relation])
