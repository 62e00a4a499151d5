"""Ridge regression without each sample in turn, against fitting it so many times."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vision_adapters.screening import leave_one_out


def test_each_sample_is_really_left_out() -> None:
    """With an intercept of its own, a fit without the sample gives the same prediction, where features stay centred."""
    generator = torch.Generator().manual_seed(0)
    half = torch.randn(20, 3, generator=generator, dtype=torch.float64)
    features, targets = torch.cat([half, -half]), torch.randn(40, 1, generator=generator, dtype=torch.float64)
    found = leave_one_out(features, targets)
    x = (features / features.std(0, correction=0)).numpy()
    penalty = found.penalty * (x**2).sum() / 3
    errors = []
    for row in range(40):
        others = np.arange(40) != row
        design = np.c_[x[others], np.ones(39)]
        shrunk = np.diag([penalty] * 3 + [0.0])
        weights = np.linalg.solve(design.T @ design + shrunk, design.T @ targets.numpy()[others])
        errors.append(float((targets[row].item() - np.r_[x[row], 1.0] @ weights)[0] ** 2))
    assert found.outcomes.numpy() == pytest.approx(np.array(errors), rel=1e-6)


def test_noise_is_worth_nothing_and_classes_are() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 4, (400,), generator=generator)
    noise = torch.randn(400, 30, generator=generator)
    assert leave_one_out(noise, labels).score < 0.35
    assert leave_one_out(noise + 3 * torch.eye(30)[labels], labels).score > 0.95
    with pytest.raises(ValueError, match="one class only"):
        leave_one_out(noise[:3], torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match="3 samples with 2 targets"):
        leave_one_out(noise[:3], labels[:2])
