"""What a training gained and forgot, against the definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from paired_scores.metrics import paired_difference
from vision_adapters.training.retention import paired_change, zero_shot_outcomes


def test_a_change_is_the_paired_difference_of_two_means() -> None:
    rng = np.random.default_rng(0)
    before, after = ((rng.random(80) < share).astype(float) for share in (0.5, 0.7))
    change = paired_change("accuracy", before, after, seed=4)
    assert change.before == pytest.approx(before.mean())
    assert change.after == pytest.approx(after.mean())
    assert change.change == pytest.approx(after.mean() - before.mean())
    expected = paired_difference("accuracy", before, after, seed=4)
    assert (change.low, change.high) == (expected.low, expected.high)
    assert change.low < change.change < change.high
    assert paired_change("accuracy", after, before, seed=4).change == pytest.approx(-change.change)
    same = paired_change("accuracy", before, before)
    assert (same.change, same.low, same.high) == (0, 0, 0)


def test_the_class_of_the_nearest_text_is_named() -> None:
    generator = torch.Generator().manual_seed(0)
    features, weights = torch.randn(30, 5, generator=generator), torch.randn(4, 5, generator=generator)
    weights = weights / weights.norm(dim=1, keepdim=True)
    truth = torch.arange(30) % 4
    outcomes = zero_shot_outcomes("acc@1", features, weights, truth)
    for index in range(30):
        cosines = [float(features[index] @ text / features[index].norm()) for text in weights]
        assert outcomes[index] == float(int(np.argmax(cosines)) == truth[index])
    assert np.array_equal(outcomes, zero_shot_outcomes("acc@1", 7 * features, weights, truth))
