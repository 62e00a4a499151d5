from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqben_builder.micro import KINDS, generator_at, holds, minimal_pair, render
from eqben_builder.scoring import caption_order_scores, parse_order, side_by_side


@pytest.mark.parametrize(
    ("answer", "order"),
    [
        ("1;2", (1, 2)),
        (" 2 ; 1.", (2, 1)),
        ('"2,1"', (2, 1)),
        ("#1 for the left image; #2 for the right one", (1, 2)),
        ("Caption 2 corresponds to the left image, caption 1 to the right image.", (2, 1)),
        ("The left image shows caption 2.", (2, 1)),
        ("left: caption 1\nright: caption 2", (1, 2)),
        ("right: #1, left: #2", (2, 1)),
        ("Caption 1 belongs to the right image.", (2, 1)),
        ("Of the left and right images, caption 1 fits the left.", None),
        ("1 and 2", None),
        ("1;1", None),
        ("1;2 or perhaps 2;1", None),
        ("11;22", None),
        ("I see two cats.", None),
        ("", None),
        ("caption 1 is left. caption 2 is left.", None),
    ],
)
def test_answers_are_read_or_not(answer, order):
    assert parse_order(answer) == order


@given(st.text())
def test_any_text_is_read_as_an_order_or_as_none(text):
    assert parse_order(text) in {(1, 2), (2, 1), None}


@pytest.fixture(scope="module")
def pairs():
    minimal_pairs = [minimal_pair(generator_at(7, k), KINDS[k % 3]) for k in range(20)]
    return minimal_pairs, [(*render([p.scene0, p.scene1], 16).images, p.caption0, p.caption1) for p in minimal_pairs]


def captions_in(prompt):
    return [line.split(": ", 1)[1] for line in prompt.splitlines() if line.startswith("caption ")]


def test_a_model_that_looks_is_right_in_both_orders(pairs):
    made, shown = pairs
    calls = iter(p for p in made for _ in range(2))

    def looks(images, prompt):
        (image,) = images
        assert image.shape == (16, 32, 3)
        first, _ = captions_in(prompt)
        return "1;2" if holds(first, next(calls).scene0) else "Caption 2 is the left one."

    orders = caption_order_scores(shown, looks)
    assert (orders.first.value, orders.swapped.value, orders.both.value, orders.consistent.value) == (1, 1, 1, 1)
    assert (orders.unparsed, orders.follows_order) == (0, 0.5)


def test_a_model_that_follows_the_order_is_found_out(pairs):
    orders = caption_order_scores(pairs[1], lambda images, prompt: "1;2")
    assert (orders.first.value, orders.swapped.value, orders.both.value, orders.consistent.value) == (1, 0, 0, 0)
    assert orders.follows_order == 1
    words = iter(["no idea", *["1;2"] * 39])
    doubtful = caption_order_scores(pairs[1], lambda images, prompt: next(words), joined=False)
    assert (doubtful.unparsed, doubtful.first.value, doubtful.follows_order) == (1, 0.95, 1.0)


@pytest.mark.parametrize("answer", ["", "no idea", "1;1", "1;2 or 2;1", "caption 1 belongs to both"])
def test_a_model_that_answers_nothing_or_both_is_named(pairs, answer):
    with pytest.raises(ValueError, match=rf"none of 40 answers says which caption is whose, the first is '{answer}'"):
        caption_order_scores(pairs[1], lambda images, prompt: answer)


def test_chance_is_what_coins_get(pairs):
    rng = np.random.default_rng(0)
    orders = caption_order_scores(pairs[1] * 200, lambda images, prompt: "1;2" if rng.random() < 0.5 else "2;1")
    for share in (orders.first, orders.swapped, orders.both, orders.consistent):
        assert abs(share.value - share.chance) < 4 * np.sqrt(share.chance * (1 - share.chance) / 4000)
        assert share.low <= share.value <= share.high


def test_captions_with_braces_reach_the_model_unchanged():
    picture, requests = np.zeros((2, 2, 3), np.uint8), []
    pair = (picture, picture, "a {caption2} {0}", "b {caption1}")
    caption_order_scores([pair], lambda images, prompt: requests.append(prompt) or "1;2")
    assert captions_in(requests[0]) == [pair[2], pair[3]]
    assert captions_in(requests[1]) == [pair[3], pair[2]]


def test_pictures_of_two_heights_stand_side_by_side():
    joined = side_by_side(np.full((3, 2, 3), 7, np.uint8), np.full((5, 1, 3), 9, np.uint8), gap=2)
    assert joined[:, :, 0].tolist() == [
        [0, 0, 0, 0, 9],
        [7, 7, 0, 0, 9],
        [7, 7, 0, 0, 9],
        [7, 7, 0, 0, 9],
        [0] * 4 + [9],
    ]


def test_wrong_use_is_refused(pairs):
    with pytest.raises(ValueError, match="no pairs"):
        caption_order_scores([], lambda images, prompt: "1;2")
    with pytest.raises(ValueError, match="lacks"):
        caption_order_scores(pairs[1], lambda images, prompt: "1;2", prompt="which one? {caption1}")
    with pytest.raises(TypeError, match="pair 0: the model answered 3"):
        caption_order_scores(pairs[1], lambda images, prompt: 3)
