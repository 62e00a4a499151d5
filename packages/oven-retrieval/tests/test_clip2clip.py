"""CLIP2CLIP as one search against the four-term formula."""

from __future__ import annotations

import numpy as np
import pytest

from oven_retrieval.models import Clip2Clip, Weights, grid_search

from ._reference import clip2clip_score

WEIGHTS = [Weights(), Weights(0.9, 0.3, 0.7, 0.2), Weights(0, 1, 0, 0), Weights(-0.4, 0.5, 1, -1)]


def make(seed, entities, questions, dim, pictured):
    rng = np.random.default_rng(seed)
    has_image = np.zeros(entities, bool)
    has_image[rng.permutation(entities)[:pictured]] = True
    features = rng.normal(size=(3, max(entities, questions), dim)) + 0.5  # as CLIP's, they share a direction
    model = Clip2Clip(features[0, :entities], features[1, :pictured], has_image, features[2, 0])
    return model, rng.normal(size=(questions, dim)), rng.normal(size=(questions, dim)), features, has_image


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(
    ("entities", "questions", "dim", "pictured"),
    [(1, 1, 1, 0), (1, 1, 3, 1), (9, 5, 7, 3), (101, 9, 65, 31), (20, 4, 512, 20)],
)
def test_one_search_equals_four_terms(weights, entities, questions, dim, pictured):
    model, image, text, features, has_image = make(1, entities, questions, dim, pictured)
    truth = np.empty((questions, entities))
    rows_with_images = np.cumsum(has_image) - 1
    for q in range(questions):
        for e in range(entities):
            picture = features[1, rows_with_images[e]] if has_image[e] else features[2, 0]
            truth[q, e] = clip2clip_score(image[q], text[q], picture, features[0, e], weights)
    np.testing.assert_allclose(model.scores(image, text, weights), truth, atol=1e-6, rtol=0)
    k = min(5, entities)
    hits = model.search(image, text, weights, k)
    np.testing.assert_allclose(hits.scores, np.sort(truth, axis=1)[:, ::-1][:, :k], atol=1e-6, rtol=0)
    np.testing.assert_allclose(np.take_along_axis(truth, hits.rows, 1), hits.scores, atol=1e-6, rtol=0)


def test_storage_where_two_thirds_have_no_image():
    model, *_ = make(0, 300, 2, 16, 100)
    assert (model._both.size + model._texts.size) / (300 * 2 * 16) == pytest.approx(2 / 3)


def test_leaving_the_black_image_out_would_change_answers():
    model, image, text, _, _ = make(3, 400, 200, 16, 130)
    weights = Weights(1, 0.5, 1, 0.5)
    right = model.search(image, text, weights).rows[:, 0]
    model.black = np.zeros(16, np.float32)
    assert np.mean(model.search(image, text, weights).rows[:, 0] == right) < 0.95


def test_grid_search_finds_planted_weights():
    rng = np.random.default_rng(0)
    model, *_ = make(5, 60, 1, 12, 60)
    image, text = rng.normal(size=(2, 400, 12))
    planted = Weights(1.0, 0.0, 1.0, 0.25)
    truth = model.search(image, text, planted).rows[:, 0]
    result = grid_search(model, image, text, truth)
    assert result.weights == planted
    assert result.accuracy == 1.0
    assert len(result.tried) == 64
    assert result.tried[Weights()] < 0.8
    with pytest.raises(ValueError, match="truth: expected rows from 0 to 59"):
        grid_search(model, image, text, truth + 60)


def test_k_beyond_the_entities():
    model, image, text, *_ = make(2, 5, 3, 4, 2)
    hits = model.search(image, text, k=9)
    assert np.all(hits.rows[:, 5:] == -1)
    assert sorted(hits.rows[0, :5].tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"has_image": [True]}, r"has_image: expected 3 values, one per text, got \[1\]"),
        ({"image": np.ones((2, 4))}, "image: expected 1 rows, one for each entity that has an image, got 2"),
        ({"image": np.ones((1, 5))}, r"image: expected shape \[n, 4\], got \[1, 5\]"),
        ({"black": None}, "black: 2 entities have no image; expected the features of a black one"),
        ({"black": np.zeros(4)}, "black: row 0 is all zeros"),
        ({"text": np.full((3, 4), np.nan)}, "text: row 0 holds NaN"),
    ],
)
def test_entities_that_do_not_fit_are_refused(change, expected):
    arguments = {
        "text": np.ones((3, 4)),
        "image": np.ones((1, 4)),
        "has_image": [False, True, False],
        "black": np.ones(4),
        **change,
    }
    with pytest.raises(ValueError, match=expected):
        Clip2Clip(**arguments)


@pytest.mark.parametrize(
    ("image", "text", "weights", "expected"),
    [
        (np.ones((2, 4)), np.ones((1, 4)), Weights(), "expected one of each per question, got 2 and 1"),
        (np.ones((1, 3)), np.ones((1, 4)), Weights(), r"image: expected shape \[n, 4\], got \[1, 3\]"),
        (np.ones((1, 4)), np.ones((1, 4)), Weights(0), "weights: expected finite numbers, not all zero"),
        (np.ones((1, 4)), np.ones((1, 4)), Weights(float("nan")), "weights: expected finite numbers"),
    ],
)
def test_questions_that_do_not_fit_are_refused(image, text, weights, expected):
    model = Clip2Clip(np.ones((2, 4)), np.ones((2, 4)), [True, True])
    with pytest.raises(ValueError, match=expected):
        model.search(image, text, weights)
