from __future__ import annotations

import numpy as np
import pytest

from eqben_builder import equivariance_scores, winoground_scores
from eqben_builder.scoring import CHANCE


@pytest.mark.parametrize("n", [1, 2, 63])
@pytest.mark.parametrize("values", [2, 5, 10**6])
def test_scores_equal_the_plain_definition(reference, n, values):
    # Few distinct values make many ties.
    scores = np.random.default_rng(n).integers(0, values, (n, 2, 2)) / values
    outcomes, ties = reference.winoground(scores.tolist())
    result = winoground_scores(scores)
    assert result.outcomes.tolist() == [list(map(bool, row)) for row in outcomes]
    assert result.ties == ties
    for k, share in enumerate((result.text, result.image, result.group)):
        assert share.value == pytest.approx(np.mean([row[k] for row in outcomes]), abs=1e-15)
        assert share.low <= share.value <= share.high


def test_swapping_the_two_sides_swaps_text_and_image():
    scores = np.random.default_rng(1).standard_normal((101, 2, 2))
    straight, swapped = winoground_scores(scores), winoground_scores(scores.swapaxes(1, 2))
    assert straight.text.value == swapped.image.value != straight.image.value
    assert np.array_equal(straight.outcomes[:, 2], swapped.outcomes[:, 2])


def test_chance_is_what_random_scores_get_and_ties_get_nothing(reference):
    assert pytest.approx(reference.group_chance()) == CHANCE["group"]
    scores = np.random.default_rng(2).standard_normal((40_000, 2, 2))
    result = winoground_scores(scores)
    for name, share in zip(("text", "image", "group"), (result.text, result.image, result.group), strict=True):
        assert share.chance == CHANCE[name]
        assert abs(share.value - share.chance) < 4 * np.sqrt(0.25 / 40_000)
    constant = winoground_scores(np.zeros((7, 2, 2)))
    assert (constant.text.value, constant.image.value, constant.group.value, constant.ties) == (0, 0, 0, 7)


def test_interval_equals_a_plain_bootstrap():
    scores = np.random.default_rng(3).standard_normal((60, 2, 2))
    result = winoground_scores(scores, resamples=20_000)
    rng, text = np.random.default_rng(4), result.outcomes[:, 0]
    means = [text[rng.integers(0, 60, 60)].mean() for _ in range(20_000)]
    assert result.text.low == pytest.approx(np.quantile(means, 0.025), abs=1.5 / 60)
    assert result.text.high == pytest.approx(np.quantile(means, 0.975), abs=1.5 / 60)
    assert result.text == winoground_scores(scores, resamples=20_000).text


def test_the_equivariance_score_follows_its_definition():
    scores = np.random.default_rng(5).standard_normal((33, 2, 2))
    errors = equivariance_scores(scores)
    for k, ((s00, s01), (s10, s11)) in enumerate(scores.tolist()):
        text, image = (s00 - s10) - (s11 - s01), (s00 - s01) - (s11 - s10)
        assert errors[k] == pytest.approx(abs(text) + abs(image), abs=1e-15)
    assert np.allclose(equivariance_scores(scores, scale="spread"), errors / scores.std())
    # An equivariant model: both own scores equal, both others equal.
    assert equivariance_scores([[[0.9, 0.2], [0.2, 0.9]]]).tolist() == [0.0]
    with pytest.raises(ValueError, match="no spread to divide by"):
        equivariance_scores(np.ones((3, 2, 2)), scale="spread")
    with pytest.raises(ValueError, match="neither 'given' nor 'spread'"):
        equivariance_scores(scores, scale="own")


@pytest.mark.parametrize("function", [winoground_scores, equivariance_scores])
@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.zeros((3, 2)), r"shape \(3, 2\)"),
        (np.zeros((0, 2, 2)), r"n >= 1"),
        (np.zeros((3, 2, 3)), r"shape \(3, 2, 3\)"),
        ([[[0.0, 0.0], [np.nan, 0.0]]], r"scores\[0, 1, 0\] = nan"),
        ([[[0.0, np.inf], [0.0, 0.0]]], r"scores\[0, 0, 1\] = inf"),
    ],
)
def test_wrong_scores_are_refused_by_name(function, scores, message):
    with pytest.raises(ValueError, match=message):
        function(scores)


def test_wrong_bootstrap_settings_are_refused():
    with pytest.raises(ValueError, match=r"level = 1\.0"):
        winoground_scores(np.zeros((1, 2, 2)), level=1.0)
    with pytest.raises(ValueError, match="resamples = 0"):
        winoground_scores(np.zeros((1, 2, 2)), resamples=0)
