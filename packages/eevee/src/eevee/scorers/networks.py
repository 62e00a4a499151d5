"""The networks of algorithm 1 for every candidate and split, all trained at once; needs torch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from eevee.scorers.scorer import Objective, unselected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float
    from torch import Tensor

    from eevee.tables.standard import Standardised


class Training(NamedTuple):
    """Steps of AdamW, and its rate and decay."""

    epochs: int
    lr: float
    weight_decay: float


class Starts(NamedTuple):
    """Uniform draws in (-1, 1) that every candidate's networks start from, one set for each split.

    First-layer draws belong to metric columns, so that two candidates start alike in the columns that they share.
    """

    first: Float[Tensor, "s metrics h"]
    first_bias: Float[Tensor, "s h"]
    second: Float[Tensor, "s h metrics"]
    second_bias: Float[Tensor, "s metrics"]


def predictions(
    data: Standardised,
    batch: Sequence[Sequence[int]],
    train: Bool[np.ndarray, "s n"],
    starts: Starts,
    rows: Float[np.ndarray, "m metrics"],
    training: Training,
) -> Float[Tensor, "c s m metrics"]:
    """Train a network for each candidate and split, and predict these rows with each."""
    columns = [data.metric_columns(candidate) for candidate in batch]
    width = max(len(c) for c in columns)
    blank = data.values.shape[1]
    index = torch.tensor([c + [blank] * (width - len(c)) for c in columns])
    sizes = torch.tensor([len(c) for c in columns], dtype=torch.float32)
    networks = Networks(index, sizes, starts)
    size = int(train.sum(axis=1).max())
    order = np.argsort(~train, axis=1, kind="stable")[:, :size]  # training rows first; short splits get filler rows
    real = np.take_along_axis(train, order, axis=1)[:, :, None]
    weight = (data.mask & data.varies)[order] & real
    x = _inputs(data.values, index)[:, torch.from_numpy(order)]
    networks.train(
        x.reshape(-1, size, width + 1),
        torch.from_numpy(data.values[order]).float(),
        torch.from_numpy(weight).float(),
        training,
    )
    return networks.forward(_inputs(rows, index))


def split_errors(
    data: Standardised,
    batch: Sequence[Sequence[int]],
    splits: Bool[np.ndarray, "s n"],
    predicted: Float[Tensor, "c s n metrics"],
    objective: Objective,
) -> Float[np.ndarray, "c 2"]:
    """Return the mean over splits of the held-out squared error of each candidate, and its standard error."""
    guess = predicted.double()
    truth = torch.from_numpy(data.values)
    out_of = torch.from_numpy(splits).double()
    cells = torch.from_numpy(data.mask & data.varies).double()[None]
    if objective == "unselected":
        cells = cells * torch.from_numpy(unselected(data, batch))[:, None, :]
    squares = torch.einsum("csnt,cnt->csn", (guess - truth).square_(), cells.expand(len(batch), -1, -1))
    per_split = (squares * out_of).sum(-1) / (cells.sum(-1)[:, None] * out_of).sum(-1).clamp_min(1e-300)
    spread = per_split.std(dim=1) if len(splits) > 1 else torch.full((len(batch),), math.nan)
    ratio = float(splits.sum() / max(1, (~splits).sum()))
    return torch.stack([per_split.mean(1), spread * math.sqrt(1 / len(splits) + ratio)], dim=1).numpy()


class Networks:
    """Two-layer networks for all (candidate, split) pairs in one flat buffer; biases are the matrices' last rows."""

    def __init__(self, index: Tensor, sizes: Tensor, starts: Starts) -> None:
        candidates, width = index.shape
        splits, metrics, hidden = starts.first.shape
        self.count, self.width, self.hidden, self.metrics = candidates * splits, width, hidden, metrics
        self.candidates, self.splits = candidates, splits
        first = self.count * (width + 1) * hidden
        self.flat = torch.empty(first + self.count * (hidden + 1) * metrics)
        self.grad = torch.empty_like(self.flat)
        self.w1, self.w2 = self._views(self.flat, first)
        self.g1, self.g2 = self._views(self.grad, first)
        padded = torch.cat([starts.first, starts.first.new_zeros(splits, 1, hidden)], dim=1)
        scale = sizes.rsqrt()[:, None, None]
        w1 = self.w1.view(candidates, splits, width + 1, hidden)
        w1[:, :, :-1] = padded[:, index].transpose(0, 1) * scale[..., None]
        w1[:, :, -1] = starts.first_bias * scale
        w2 = self.w2.view(candidates, splits, hidden + 1, metrics)
        w2[:, :, :-1] = starts.second / math.sqrt(hidden)
        w2[:, :, -1] = starts.second_bias / math.sqrt(hidden)

    def _views(self, flat: Tensor, first: int) -> tuple[Tensor, Tensor]:
        return (
            flat[:first].view(self.count, self.width + 1, self.hidden),
            flat[first:].view(self.count, self.hidden + 1, self.metrics),
        )

    def train(self, x: Tensor, y: Tensor, weight: Tensor, training: Training) -> None:
        """Full-batch AdamW on the weighted mean squared error of each network; targets and weights are the split's."""
        rows = x.shape[1]
        hidden = x.new_ones(self.count, rows, self.hidden + 1)
        active = hidden[:, :, :-1]
        before = x.new_empty(self.count, rows, self.hidden)
        slope = torch.empty_like(before)
        output = x.new_empty(self.count, rows, self.metrics)
        by_split = output.view(self.candidates, self.splits, rows, self.metrics)
        factor = 2 * weight / weight.sum((-2, -1), keepdim=True).clamp_min(1)
        self.flat.grad = self.grad
        optimiser = torch.optim.AdamW(
            [self.flat], lr=training.lr, weight_decay=training.weight_decay, fused=True, betas=(0.9, 0.999), eps=1e-8
        )
        for _ in range(training.epochs):
            torch.bmm(x, self.w1, out=before)
            torch.clamp_min(before, 0.0, out=active)
            torch.bmm(hidden, self.w2, out=output)
            by_split.sub_(y).mul_(factor)
            torch.bmm(hidden.transpose(1, 2), output, out=self.g2)
            torch.bmm(output, self.w2[:, :-1].transpose(1, 2), out=slope)
            gated = torch.ops.aten.threshold_backward(
                slope, before, 0.0
            )  # one pass; a masked fill takes five times as long
            torch.bmm(x.transpose(1, 2), gated, out=self.g1)
            optimiser.step()

    def forward(self, x: Float[Tensor, "c m d"]) -> Float[Tensor, "c s m metrics"]:
        """Predictions of every network of a candidate on the same rows."""
        candidates, rows, width = x.shape
        spread = x[:, None].expand(-1, self.splits, -1, -1).reshape(self.count, rows, width)
        hidden = torch.bmm(spread, self.w1).clamp_min_(0.0)
        output = torch.baddbmm(self.w2[:, -1:], hidden, self.w2[:, :-1])
        return output.view(candidates, self.splits, rows, self.metrics)


def _inputs(values: Float[np.ndarray, "m metrics"], index: Tensor) -> Float[Tensor, "c m d"]:
    """Each candidate's columns of some rows, with a column of ones for the bias; the blank column is zero."""
    rows = torch.from_numpy(values).float()
    padded = torch.cat([rows, rows.new_zeros(len(rows), 1)], dim=1)
    chosen = padded.T[index].transpose(1, 2)
    return torch.cat([chosen, chosen.new_ones(*chosen.shape[:2], 1)], dim=2)


def draw_starts(metrics: int, hidden: int, splits: int, seed: int) -> Starts:
    """The draws that all candidates start from; a layer scales them by one over the root of its inputs, as in torch."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator) * 2 - 1

    return Starts(
        uniform(splits, metrics, hidden),
        uniform(splits, hidden),
        uniform(splits, hidden, metrics),
        uniform(splits, metrics),
    )
