from __future__ import annotations

import numpy as np
import pytest

from eqben_builder.scoring import valse_scores
from eqben_builder.scoring.valse import best_cut


@pytest.mark.parametrize("n", [1, 7, 63])
def test_probabilities_follow_the_plain_definition(n):
    scores = np.random.default_rng(n).integers(0, 9, (n, 2)) / 8
    scores[0] = (0.75, 0.25)
    result = valse_scores(scores, scale="probability")
    p_c = sum(caption > 0.5 for caption, _ in scores) / n
    p_f = sum(foil <= 0.5 for _, foil in scores) / n
    assert result.caption.value == pytest.approx(p_c, abs=1e-15)
    assert result.foil.value == pytest.approx(p_f, abs=1e-15)
    assert result.accuracy.value == pytest.approx((p_c + p_f) / 2, abs=1e-15)
    assert result.smaller == min(result.caption.value, result.foil.value)
    assert result.pairwise.value == pytest.approx(sum(c > f for c, f in scores) / n, abs=1e-15)
    assert result.ties == sum(c == f for c, f in scores)
    assert all(
        share.low <= share.value <= share.high
        for share in (result.accuracy, result.caption, result.foil, result.pairwise)
    )


@pytest.mark.parametrize("n", [1, 2, 31])
@pytest.mark.parametrize("values", [2, 10**6])
def test_no_threshold_is_better_than_the_best(n, values):
    scores = np.random.default_rng(n).integers(0, values, (n, 2)) / values + 0.2

    def right(cut):
        return sum(int(c > cut) + int(f <= cut) for c, f in scores)

    cuts = [-1.0, 9.0, *(float(v) + shift for v in scores.ravel() for shift in (-1e-9, 0.0, 1e-9))]
    assert right(best_cut(scores[:, 0], scores[:, 1])) == max(map(right, cuts))


def test_a_threshold_lies_between_neighbours_that_touch():
    low = 0.3
    high = np.nextafter(low, 1.0)
    cut = best_cut(np.array([high]), np.array([low]))
    assert low <= cut < high


def test_calibration_is_out_of_fold():
    # Labels at random: thresholds fitted on the few rows that they are used on would look far better than chance.
    rng = np.random.default_rng(0)
    results = [valse_scores(rng.standard_normal((20, 2)), scale="calibrated", resamples=1) for _ in range(300)]
    assert np.mean([valse_score.accuracy.value for valse_score in results]) < 0.5 + 4 * 0.5 / np.sqrt(300 * 40)
    assert len(results[0].thresholds) == 5
    scores = rng.standard_normal((4000, 2))
    shifted = scores / 100 + 0.25 + np.array([0.01, 0.0])
    cosines = valse_scores(shifted, scale="calibrated")
    assert all(0.24 < cut < 0.27 for cut in cosines.thresholds)
    assert cosines.accuracy.value > 0.6


def test_raw_cosines_are_refused():
    cosines = np.random.default_rng(0).uniform(0.15, 0.35, (100, 2))
    with pytest.raises(ValueError, match=r"one side of 0\.5 .* look like cosines"):
        valse_scores(cosines, scale="probability")
    with pytest.raises(ValueError, match=r"2 rows are no probabilities \(row 1: \[0\.25, -0\.5\]\)"):
        valse_scores([[0.9, 0.2], [0.25, -0.5], [1.5, 0.5]], scale="probability")
    with pytest.raises(TypeError, match="scale"):
        valse_scores(cosines)
    with pytest.raises(ValueError, match="'cosine' is neither"):
        valse_scores(cosines, scale="cosine")


@pytest.mark.parametrize(
    ("scores", "more", "message"),
    [
        (np.zeros((3, 2, 2)), {}, r"shape \(3, 2, 2\)"),
        ([[0.1, 0.2], [np.nan, 0.1], [0.1, np.inf]], {}, r"2 rows are not finite: 1, 2"),
        (np.zeros((9, 2)), {}, "9 rows are too few to calibrate on"),
        (np.zeros((20, 2)), {"level": 1.5}, r"level = 1\.5"),
    ],
)
def test_wrong_scores_are_refused(scores, more, message):
    with pytest.raises(ValueError, match=message):
        valse_scores(scores, **{"scale": "calibrated", **more})
