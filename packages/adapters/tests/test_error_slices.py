"""Slices of wrong answers: what is planted is found on the other half, and nothing is found where nothing is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from vision_adapters.error_slices import error_slices


def test_a_planted_neighbourhood_is_found_on_the_other_half() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(600, 16))
    rows[:120] += 6 * np.eye(16)[3]
    hits = np.where(np.arange(600) < 120, rng.random(600) < 0.3, rng.random(600) < 0.9)
    worst = error_slices(rows, hits)[0]
    assert worst.holds
    assert np.mean(np.array(worst.members) < 120) > 0.9
    assert worst.score.value == pytest.approx(hits[list(worst.members)].mean())
    assert worst.score.samples == len(worst.members)


def test_members_are_of_the_half_that_was_not_searched() -> None:
    rng = np.random.default_rng(2)
    rows, hits = rng.normal(size=(200, 4)), (rng.random(200) < 0.5).astype(float)
    groups = [at // 4 for at in range(200)]
    listed = error_slices(rows, hits, groups=groups, seed=3)
    inside = {groups[at] for part in listed for at in part.members}
    assert 0 < len(inside) <= 25  # whole groups, half of them


def test_null_draws_find_slices_at_their_level() -> None:
    rng, draws = np.random.default_rng(0), 60
    wrongly = sum(
        any(part.holds for part in error_slices(rng.normal(size=(160, 6)), rng.random(160) < 0.7, seed=draw))
        for draw in range(draws)
    )
    assert wrongly <= 8  # 3 are expected at 5 %


def test_few_errors_make_no_slice_and_odd_input_is_refused() -> None:
    rows = np.eye(30)
    assert error_slices(rows, np.ones(30)) == []
    with pytest.raises(ValueError, match="a 0 or 1 for each row"):
        error_slices(rows, np.full(30, 0.5))
    with pytest.raises(ValueError, match="row 2 holds NaN"):
        error_slices(np.where(np.arange(30)[:, None] == 2, np.nan, rows), np.ones(30))


@pytest.mark.parametrize("kind", ["tensor", "series", "another index"])
def test_groups_are_taken_by_place_whatever_holds_them(kind: str) -> None:
    rng = np.random.default_rng(0)
    rows, groups = rng.normal(size=(400, 8)), np.repeat(np.arange(80), 5)
    right = np.where(rows[:, 0] > 1, rng.random(400) < 0.2, rng.random(400) < 0.95)
    column: Any = torch.tensor(groups)
    if kind != "tensor":
        pd = pytest.importorskip("pandas")
        column = pd.Series(groups, index=rng.permutation(400) if kind == "another index" else None)
    assert error_slices(rows, right, groups=column) == error_slices(rows, right, groups=groups.tolist())
