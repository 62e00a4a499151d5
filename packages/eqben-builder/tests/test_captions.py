from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqben_builder.micro import (
    NUMBERS,
    SHAPES,
    VOCABULARY,
    Item,
    Phrase,
    Scene,
    caption,
    generator_at,
    holds,
    question,
    scene_at,
)
from eqben_builder.micro.attributes import FIELDS, RELATIONS, all_words
from eqben_builder.micro.statements import Count, Exists, Related, parse

STAR = Item("star", "red", "small", "plain", 0.2, 0.5)
RING = Item("ring", "orange", "large", "striped", 0.7, 0.5)
SCENE = Scene((STAR, RING, Item("ring", "blue", "large", "striped", 0.75, 0.5)))

PHRASES = st.fixed_dictionaries({field: st.none() | st.sampled_from(values) for field, values in FIELDS.items()}).map(
    lambda named: Phrase(tuple((field, named[field]) for field in FIELDS if named[field]))
)
STATEMENTS = (
    st.builds(Exists, st.lists(PHRASES, min_size=1, max_size=4).map(tuple))
    | st.builds(Related, PHRASES, st.sampled_from(RELATIONS), PHRASES)
    | st.builds(Count, st.integers(0, 10), PHRASES)
)


@settings(deadline=None, max_examples=300)
@given(STATEMENTS)
def test_statements_survive_their_text(statement):
    assert parse(statement.text()) == statement
    assert parse("  A photo of " + statement.text().upper() + " . ") == statement
    if isinstance(statement, Related):
        assert parse(statement.text("the")) == statement


@settings(deadline=None, max_examples=300)
@given(st.text(max_size=60) | st.lists(st.sampled_from(VOCABULARY), max_size=10).map(" ".join))
def test_any_text_is_read_or_refused_by_its_words(text):
    try:
        statement = parse(text)
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = repr(text)
        assert parse(statement.text()) == statement
    assert repr(text) in refusal


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("a red star", True),
        ("a blue star", False),
        ("an orange ring and a blue ring", True),
        ("two rings", True),
        ("three rings", False),
        ("one ring", False),
        ("zero stars", False),
        ("one large orange object", True),
        ("three objects", True),
        ("zero circles", True),
        ("a star left of a striped ring", True),
        ("a striped ring left of a star", False),
        ("the orange ring is right of the small star", True),
        ("a blue ring in front of an orange ring", True),
        ("an orange ring in front of a blue ring", False),
        ("an orange ring behind a ring", True),
        ("a red star and a red star", False),
    ],
)
def test_truth_of_captions(text, truth):
    assert holds(text, SCENE) is truth


def split_words(text):
    return re.findall(r"[^\W\d_]+|\d+|[^\w\s]", text.lower())


def test_captions_are_true_known_words_and_deterministic():
    kinds = set()
    for k in range(1500):
        scene = scene_at(21, k, (0, 6), max_overlap=0.4)
        text = caption(scene, generator_at(22, k))
        assert holds(text, scene), text
        assert set(split_words(text)) <= set(VOCABULARY)
        assert text == caption(scene, generator_at(22, k))
        kinds.add(type(parse(text)))
    assert kinds == {Exists, Related, Count}


@pytest.mark.parametrize(("kind", "statement"), [("exists", Exists), ("relation", Related), ("count", Count)])
def test_captions_of_a_kind(kind, statement):
    for k in range(100):
        scene = scene_at(23, k, 3)
        expected = statement if kind != "relation" or scene.relations() else Exists
        assert isinstance(parse(caption(scene, generator_at(24, k), kind=kind)), expected)


def test_questions_have_the_answer_that_the_graph_gives():
    forms = set()
    for k in range(1500):
        scene = scene_at(25, k, (0, 6))
        text, answer = question(scene, generator_at(26, k))
        assert set(split_words(f"{text} {answer}")) <= set(VOCABULARY)
        assert text.endswith(" ?")
        body = text.removesuffix(" ?")
        if body.startswith("how many") and body.endswith(" are there"):
            forms.add("count")
            assert holds(f"{answer} {body[9:-10]}", scene)
        elif body.startswith("how many objects are "):
            forms.add("either")
            phrases = [parse(f"zero {part}").phrase for part in body[21:].split(" or ")]
            assert answer == NUMBERS[sum(any(p.matches(item) for p in phrases) for item in scene.items)]
        elif body.startswith("subtract all "):
            forms.add("left")
            phrase = parse(f"zero {body[13:].split(' . ')[0]}").phrase
            assert answer == NUMBERS[sum(not phrase.matches(item) for item in scene.items)]
        elif body.startswith("is there "):
            forms.add(answer)
            assert holds(body[9:], scene) is (answer == "yes")
        else:
            field, _, rest = body.removeprefix("what ").partition(" is the ")
            forms.add(field)
            (phrase,) = parse(f"a {rest}").phrases
            (item,) = [item for item in scene.items if phrase.matches(item)]
            assert answer == getattr(item, field)
    assert forms == {"count", "either", "left", "yes", "no", *FIELDS}


def test_vocabulary_covers_every_caption_prompt_and_number():
    words = set(all_words())
    assert len(words) == len(all_words())
    assert set(split_words("A photo of a picture of an image with the background, how many are there?")) <= words
    for shape in SHAPES:
        assert set(Count(2, Phrase((("shape", shape),))).text().split()) <= words
    assert {"add", "subtract", "take", "away", "remove", "left", "above", "front", "objects", "things", "?"} <= words
    assert set(NUMBERS) | {str(n) for n in range(11)} <= words


def test_what_captions_cannot_say_is_refused():
    crowd = Scene((STAR,) * 11)
    with pytest.raises(ValueError, match="11 items"):
        caption(crowd, np.random.default_rng(0))
    with pytest.raises(ValueError, match="11 items"):
        question(crowd, np.random.default_rng(0))
    with pytest.raises(ValueError, match="'mood'"):
        caption(SCENE, np.random.default_rng(0), kind="mood")
