"""Solved class maps against a slow float64 regression, pixel by pixel."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from vision_adapters import patch_ridge
from vision_adapters.patch_ridge import (
    COMPONENTS,
    LIFTS,
    PENALTIES,
    PatchRidgeHead,
    block_of,
    blocks_of,
    fit_patch_ridge,
)
from vision_adapters.training import Scale

GRID, SIZE, CLASSES = (3, 2), (6, 6), 3


def reference(tokens: Tensor, maps: Tensor, penalty: float, lift: float) -> Tensor:
    """Scores ``[n, k, H, W]`` by a regression for each pixel of a block and each class, with loops."""
    (h, w), (bh, bw), n = GRID, block_of(GRID, SIZE), len(tokens)
    z = (tokens.double() - tokens.double().mean((0, 1))) / tokens.double().std((0, 1), correction=0)
    z = z.reshape(n, h, w, -1)
    x = torch.zeros(n, h, w, z.shape[-1], 3, 3, dtype=torch.float64)
    for row in range(h):
        for column in range(w):
            for up in (-1, 0, 1):
                for left in (-1, 0, 1):
                    if 0 <= row + up < h and 0 <= column + left < w:
                        x[:, row, column, :, up + 1, left + 1] = z[:, row + up, column + left]
    x = x.reshape(n * h * w, -1)
    x0 = x - x.mean(0)
    gram = x0.T @ x0
    gram += penalty * gram.diagonal().mean() * torch.eye(len(gram), dtype=torch.float64)
    labelled = maps[(maps >= 0) & (maps < CLASSES)]
    frequency = torch.bincount(labelled, minlength=CLASSES).double() / len(labelled)
    scores = torch.zeros(n, CLASSES, *SIZE, dtype=torch.float64)
    for i in range(bh):
        for j in range(bw):
            y = maps[:, i::bh, j::bw].reshape(-1)
            known = (y >= 0) & (y < CLASSES)
            for k in range(CLASSES):
                mean = (y[known] == k).double().mean()
                target = torch.where(known, (y == k).double() - mean, 0.0)
                weight = torch.linalg.solve(gram, x0.T @ target)
                scores[:, k, i::bh, j::bw] = ((x0 @ weight + mean) / frequency[k] ** lift).reshape(n, h, w)
    return scores


def samples(n: int = 40, width: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randn(n, GRID[0] * GRID[1], width, generator=generator) * 3 + 5
    maps = torch.randint(0, CLASSES, (n, *SIZE), generator=generator)
    maps[:, :2, :2] = (tokens[:, 0, 0] > 5).long()[:, None, None]
    maps[maps.eq(2) & (torch.rand(maps.shape, generator=generator) < 0.5)] = -100
    return tokens, maps


@pytest.mark.parametrize("choice", [(PENALTIES[2], LIFTS[0]), (PENALTIES[0], LIFTS[4])])
def test_scores_are_those_of_a_regression_for_each_pixel(choice: tuple[float, float]) -> None:
    tokens, maps = samples()
    scale, choices = Scale.of(tokens), iter([*PENALTIES, *LIFTS[1:]])
    number = PENALTIES.index(choice[0]) if choice[1] == LIFTS[0] else len(PENALTIES) + LIFTS.index(choice[1]) - 1
    seen: list[object] = []

    def validate(head: PatchRidgeHead) -> float:
        seen.append(next(choices))
        return 1.0 + len(seen) / 100 if len(seen) == number + 1 else 0.5 if len(seen) == 1 else 0.0

    solved = fit_patch_ridge(tokens, maps, classes=CLASSES, grid=GRID, size=SIZE, scale=scale, validate=validate)
    assert (solved.chosen.penalty, solved.chosen.lift) == choice
    assert len(solved.tried) == len(PENALTIES) + len(LIFTS) - 1
    with torch.no_grad():
        scores = solved.head(scale(tokens))
    torch.testing.assert_close(scores.double(), reference(tokens, maps, *choice), rtol=1e-3, atol=1e-4)


def test_sums_are_the_same_however_few_images_are_together(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, maps = samples()
    rows: list[int] = []
    one_hot = torch.nn.functional.one_hot

    def counted(labels: Tensor, classes: int) -> Tensor:
        rows.append(len(labels))
        return one_hot(labels, classes)

    def weights() -> Tensor:
        solved = fit_patch_ridge(
            tokens, maps, classes=CLASSES, grid=GRID, size=SIZE, scale=Scale.of(tokens), validate=lambda head: 0.0
        )
        return solved.head.weight.detach()

    monkeypatch.setattr(patch_ridge.F, "one_hot", counted)
    together = weights()
    assert rows == [len(tokens) * GRID[0] * GRID[1]]
    monkeypatch.setattr(patch_ridge, "_INDICATORS", 2 * len(maps[0].flatten()) * (CLASSES + 1))  # those of two images
    torch.testing.assert_close(weights(), together, rtol=1e-3, atol=1e-5)
    assert set(rows[1:]) == {2 * GRID[0] * GRID[1]}


def test_wide_tokens_are_reduced_to_their_principal_components() -> None:
    generator = torch.Generator().manual_seed(1)
    few = torch.randn(30, 6, 5, generator=generator)
    wide = few @ torch.randn(5, COMPONENTS + 40, generator=generator)
    maps = samples(30)[1]
    solved = fit_patch_ridge(
        wide, maps, classes=CLASSES, grid=GRID, size=SIZE, scale=Scale.of(wide), validate=lambda head: 0.0
    )
    components = solved.head.components.detach()
    assert components.shape == (COMPONENTS, COMPONENTS + 40)
    scaled = Scale.of(wide)(wide).flatten(0, 1)
    projected = scaled @ components.T @ components  # what varies in five directions is all there
    torch.testing.assert_close(projected, scaled, rtol=1e-3, atol=1e-3)


def test_maps_of_other_sizes_are_brought_to_the_blocks() -> None:
    maps = torch.tensor([[[0, 0, 1], [0, 0, 1], [2, 2, -100]]])
    assert block_of((2, 2), (3, 3)) == (2, 2)
    assert blocks_of(maps, (2, 2), (3, 3), 3).shape == (4, 4)
    assert blocks_of(maps, (2, 2), (3, 3), 3).max() == 3  # behind the last class: not labelled


def test_nothing_labelled_is_an_error() -> None:
    tokens, maps = samples(4)
    with pytest.raises(ValueError, match=r"no pixel of 4 maps has a class of 0\.\.2"):
        fit_patch_ridge(
            tokens, torch.full_like(maps, -100), classes=CLASSES, grid=GRID, size=SIZE, scale=Scale.of(tokens),
            validate=lambda head: 0.0,
        )  # fmt: skip
    with pytest.raises(ValueError, match="4 images with 3 maps"):
        fit_patch_ridge(
            tokens, maps[:3], classes=CLASSES, grid=GRID, size=SIZE, scale=Scale.of(tokens), validate=lambda head: 0.0
        )
