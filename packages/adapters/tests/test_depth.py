"""Depth and volumes, against loops over pixels and slices."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from vision_adapters.depth import depth_errors, depth_loss, metres
from vision_adapters.rows.volumes import tall_maps


def test_errors_and_loss_agree_with_loops_over_measured_pixels() -> None:
    generator = torch.Generator().manual_seed(0)
    truth = torch.rand(3, 4, 5, generator=generator) * 4 * (torch.rand(3, 4, 5, generator=generator) > 0.3)
    output = torch.randn(3, 1, 4, 5, generator=generator)
    predicted = metres(output, 1.7)
    logs = []
    errors = depth_errors(predicted, truth)
    for index in range(3):
        pixels = [
            (1.7 * math.exp(guess), true)
            for guess, true in zip(output[index].flatten().tolist(), truth[index].flatten().tolist(), strict=True)
            if true > 0
        ]
        logs += [abs(math.log(guess / true)) for guess, true in pixels]
        rmse = math.sqrt(sum((guess - true) ** 2 for guess, true in pixels) / len(pixels))
        assert errors["rmse"][index] == pytest.approx(rmse, rel=1e-5)
        relative = sum(abs(guess - true) / true for guess, true in pixels) / len(pixels)
        assert errors["abs_rel"][index] == pytest.approx(relative, rel=1e-5)
        near = sum(max(guess / true, true / guess) < 1.25 for guess, true in pixels) / len(pixels)
        assert errors["delta_1.25"][index] == pytest.approx(near)
    assert float(depth_loss(output, truth, 1.7)) == pytest.approx(sum(logs) / len(logs), rel=1e-5)
    assert float(depth_loss(output, torch.zeros_like(truth), 1.7)) == 0.0


def test_depths_stay_within_their_bounds() -> None:
    assert metres(torch.tensor([[[[100.0, -100.0]]]]), 2.0).flatten().tolist() == pytest.approx(
        [2 * math.exp(6), 2 * math.exp(-6)]
    )
    with pytest.raises(ValueError, match="no depth was measured in sample 1"):
        depth_errors(torch.ones(2, 1, 1), torch.tensor([[[1.0]], [[0.0]]]))
    with pytest.raises(ValueError, match="2 predictions and 1 maps"):
        depth_errors(torch.ones(2, 1, 1), torch.ones(1, 1, 1))


def test_slices_of_a_volume_become_one_map() -> None:
    maps = torch.arange(24, dtype=torch.int16).reshape(4, 2, 3)
    tall = tall_maps(maps, torch.tensor([5, 5, 5, 2]))
    assert tall.shape == (2, 6, 3)
    assert tall.dtype == torch.int16
    assert np.array_equal(tall[0].numpy(), np.concatenate([slice_.numpy() for slice_ in maps[:3]]))
    assert torch.equal(tall[1, :2], maps[3])
    assert bool((tall[1, 2:] == -100).all())
    with pytest.raises(ValueError, match="4 slices have 3 numbers"):
        tall_maps(maps, torch.tensor([0, 0, 1]))
