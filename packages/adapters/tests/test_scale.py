"""Features on one scale, whatever the encoder's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from vision_adapters.training import Scale


class Stored:
    """Rows that are not in memory."""

    costly = False

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Any, /) -> Tensor:
        return self.rows[rows]


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("level", [0.0, 7.3, 100.1, 1e4 + 0.3, -1e6])
def test_a_channel_that_never_varies_is_no_feature(level: float, stored: bool) -> None:
    varying = torch.randn(300, 3, generator=torch.Generator().manual_seed(0)) * 1e-5
    rows = torch.cat([varying, torch.full((300, 2), level)], dim=1)
    scaled = Scale.of(Stored(rows) if stored else rows)(rows)
    assert scaled[:, 3:].abs().max() <= 1e-6 * abs(level)
    torch.testing.assert_close(scaled[:, :3].std(dim=0, correction=0), torch.ones(3), atol=1e-3, rtol=0)
    beyond = rows[:1] + torch.tensor([0, 0, 0, 1e-3, 0])
    assert Scale.of(Stored(rows) if stored else rows)(beyond)[0, 3].abs() <= 2e-3 + 1e-6 * abs(level), (
        "no rounding grows"
    )
