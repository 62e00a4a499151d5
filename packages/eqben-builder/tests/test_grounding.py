"""Boundaries in videos: planted ones are found, thresholds are the paper's, and wrong input is named."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eqben_builder.scoring import ground_boundary, grounding_accuracy


def test_a_planted_boundary_is_at_the_largest_contrast():
    rng = np.random.default_rng(0)
    times = np.arange(60) / 5
    predicted, true = [], []
    for k in range(1, 59):
        before = np.where(np.arange(60) <= k, 0.3, 0.2) + 0.01 * rng.standard_normal(60)
        after = np.where(np.arange(60) <= k, 0.2, 0.3) + 0.01 * rng.standard_normal(60)
        boundary = ground_boundary([before, after], times)
        plain = [before[t] + after[t + 1] - before[t + 1] - after[t] for t in range(59)]
        assert np.allclose(boundary.scores, plain)
        assert boundary.frame == int(np.argmax(plain))
        predicted.append(boundary.time)
        true.append(float(times[k]) + 0.1)
    assert grounding_accuracy(predicted, true)[0.1] == 1.0
    assert list(grounding_accuracy(predicted, true)) == [0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    assert grounding_accuracy([2.1, 9.0], [2.0, [1.0, 6.0]], [0.0, 0.1, 3.0]) == {0.0: 0.0, 0.1: 0.5, 3.0: 1.0}


@pytest.mark.parametrize(
    ("similarities", "times", "message"),
    [
        (np.zeros((2, 1)), [0.0], r"shape \(2, 1\)"),
        (np.zeros((2, 3)), [0.0, 1.0], r"times \(2,\)"),
        (np.zeros((2, 3)), [0.0, 1.0, 1.0], r"1\.0 is followed by 1\.0"),
        ([[0.0, np.nan], [0.0, 0.0]], [0.0, 1.0], "not finite"),
    ],
)
def test_wrong_similarities_and_times_are_refused(similarities, times, message):
    with pytest.raises(ValueError, match=message):
        ground_boundary(similarities, times)


def test_wrong_truth_is_refused():
    with pytest.raises(ValueError, match="2 predicted times for 1"):
        grounding_accuracy([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="query 1 has no true time"):
        grounding_accuracy([1.0, 2.0], [1.0, []])
    with pytest.raises(ValueError, match="at least 0"):
        grounding_accuracy([1.0], [1.0], [-1.0])
    with pytest.raises(ValueError, match="query 0 holds a time"):
        grounding_accuracy([math.nan], [1.0])
