from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from eqben_builder.micro import KINDS, Item, Pair, Scene, certify, generator_at, holds, minimal_pair, render
from eqben_builder.micro.attributes import FIELDS
from eqben_builder.micro.minimal import Difference
from eqben_builder.micro.pairs import scene_difference

STAR = Item("star", "red", "small", "plain", 0.2, 0.5)
RING = Item("ring", "blue", "large", "striped", 0.7, 0.5)
SCENE = Scene((STAR, RING))
PINK = Scene((replace(STAR, colour="pink"), RING))


def pairs(kind, n=200):
    return [minimal_pair(generator_at(31, k), kind) for k in range(n)]


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_differ_in_one_thing_and_captions_fit_one_scene_each(kind):
    for pair in pairs(kind):
        (difference,) = scene_difference(pair.scene0, pair.scene1)
        assert certify(pair) == difference
        assert (difference.kind, difference.field) == (pair.kind, pair.field) == (kind, pair.field)
        truth = [
            [holds(text, scene) for scene in (pair.scene0, pair.scene1)] for text in (pair.caption0, pair.caption1)
        ]
        assert truth == [[True, False], [False, True]]
        drawn = render([pair.scene0, pair.scene1]).images
        assert not np.array_equal(drawn[0], drawn[1])


def test_an_attribute_pair_differs_in_one_field_of_one_item():
    for pair in pairs("attribute"):
        changed = [(a, b) for a, b in zip(pair.scene0.items, pair.scene1.items, strict=True) if a != b]
        ((a, b),) = changed
        assert replace(b, **{pair.field: getattr(a, pair.field)}) == a
        assert pair.scene0.background == pair.scene1.background
    assert set(Counter(pair.field for pair in pairs("attribute"))) == set(FIELDS)


def test_a_count_pair_differs_by_one_item():
    for pair in pairs("count"):
        more, less = sorted((pair.scene0.items, pair.scene1.items), key=len, reverse=True)
        assert sum((Counter(more) - Counter(less)).values()) == 1
        assert not Counter(less) - Counter(more)
        assert pair.field == ("added" if len(pair.scene1.items) > len(pair.scene0.items) else "removed")


def test_a_relation_pair_keeps_its_items_and_its_words():
    for pair in pairs("relation"):
        assert sorted(pair.caption0.split()) == sorted(pair.caption1.split())
        looks = [
            Counter((i.shape, i.colour, i.size, i.material, i.scale, i.angle) for i in scene.items)
            for scene in (pair.scene0, pair.scene1)
        ]
        assert looks[0] == looks[1]
    fields = Counter(pair.field for pair in pairs("relation"))
    assert set(fields) == {"horizontal", "vertical", "depth"}
    assert min(fields.values()) > 20


def test_neither_side_of_a_pair_can_be_told_from_its_caption_alone():
    # A text-only model must stay at chance: no word may lean to caption 0.
    for kind in KINDS:
        drawn = pairs(kind, 400)
        first = Counter(word for pair in drawn for word in set(pair.caption0.split()))
        second = Counter(word for pair in drawn for word in set(pair.caption1.split()))
        for word in first | second:
            assert abs(first[word] - second[word]) <= 4.5 * np.sqrt(first[word] + second[word]), word


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (SCENE, []),
        (replace(SCENE, background=(0.2, 0.2, 0.2)), [("background", "background", ())]),
        (Scene((replace(STAR, colour="pink"), RING)), [("attribute", "colour", (0,))]),
        (Scene((replace(STAR, size="large", scale=0.2), RING)), [("attribute", "size", (0,))]),
        (Scene((replace(STAR, scale=0.2), RING)), [("other", "scale", (0,))]),
        (Scene((replace(STAR, x=0.3), RING)), [("other", "x", (0,))]),
        (
            Scene((replace(STAR, colour="pink", shape="ring"), RING)),
            [("attribute", "colour", (0,)), ("attribute", "shape", (0,))],
        ),
        (Scene((replace(STAR, x=0.7), replace(RING, x=0.2))), [("relation", "horizontal", (0, 1))]),
        (Scene((STAR, RING, STAR)), [("count", "added", (2,))]),
        (Scene((RING,)), [("count", "removed", (0,))]),
        (Scene(()), [("other", "2 items against 0", ())]),
        (Scene((replace(RING, colour="red"),)), [("other", "2 items against 1", ())]),
    ],
)
def test_differences_are_named(other, expected):
    differences = scene_difference(SCENE, other)
    assert sorted(differences) == sorted(Difference(*row) for row in expected)


def test_an_exchange_in_depth_needs_something_hidden():
    over = replace(RING, x=0.25)
    assert scene_difference(Scene((STAR, over)), Scene((over, STAR))) == (Difference("relation", "depth", (0, 1)),)
    assert all(difference.kind != "relation" for difference in scene_difference(SCENE, Scene((RING, STAR))))


PLACES_EXCHANGED = Scene((replace(STAR, x=0.7), replace(RING, x=0.2)))
RED_RING = replace(RING, x=0.3, colour="red", material="plain")


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (Pair(SCENE, SCENE, "a star", "a ring", "attribute", "colour"), "differ in 0 things"),
        (Pair(SCENE, PINK, "a red star", "a pink star", "attribute", "shape"), "the pair says attribute 'shape'"),
        (Pair(SCENE, PINK, "a cyan star", "a pink star", "attribute", "colour"), "'a cyan star' is false of its own"),
        (Pair(SCENE, PINK, "a red star", "a star", "attribute", "colour"), "'a star' is true of the other scene too"),
        (
            Pair(SCENE, PLACES_EXCHANGED, "a star left of a ring", "a star right of a ring", "relation", "horizontal"),
            "same words",
        ),
        (
            Pair(
                Scene((STAR, RED_RING)),
                Scene((RED_RING, STAR)),
                "a star behind a ring",
                "a ring behind a star",
                "relation",
                "depth",
            ),
            "differ in 0 pixels",
        ),
    ],
)
def test_a_pair_that_is_not_minimal_is_refused(pair, message):
    with pytest.raises(ValueError, match=message):
        certify(pair)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="'mood'"):
        minimal_pair(np.random.default_rng(0), "mood")
