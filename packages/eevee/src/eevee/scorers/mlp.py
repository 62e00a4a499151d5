"""The paper's meta-model (algorithm 1): small networks for every candidate and split, all trained at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from eevee.errors import EeveeError
from eevee.scorers.scorer import Objective, require_objective, unselected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float
    from torch import Tensor

    from eevee.tables.standard import Standardised

CACHE_BYTES = 6 << 20


class Starts(NamedTuple):
    """Uniform draws in (-1, 1) that every candidate's networks start from, one set for each split.

    First-layer draws belong to metric columns, so that two candidates start alike in the columns that they share.
    """

    first: Float[Tensor, "s metrics h"]
    first_bias: Float[Tensor, "s h"]
    second: Float[Tensor, "s h metrics"]
    second_bias: Float[Tensor, "s metrics"]


@dataclass(frozen=True)
class MlpScorer:
    r"""Error of predicting a table from some of its columns by a small network, on shuffled splits of the models.

    $g(x) = W_2 \max(0, W_1 x + b_1) + b_2$, trained on the mean squared error of the training models in full batches,
    and scored by that of the held-out models; the score is the mean over splits.

    Args:
        objective: `all` metrics count, or the `unselected` ones, outside the candidate.
        epochs: full-batch steps, >= 1.
        hidden: width, >= 1.
        lr: learning rate of AdamW, > 0.
        weight_decay: of AdamW, >= 0.
        splits: number of shuffled splits, >= 1.
        held_out: share of the models (of their groups) that a split holds out, in (0, 1).
        seed: of splits and starts, which all candidates share: common random numbers.
        chunk: candidates trained at once; by default as many as fit the cache.

    Numerics: float32, one flat parameter buffer, hand-written gradients; equal to a torch module for each candidate
        and split to rounding. A missing target is not counted, a missing input is the column's mean. The standard error
        over splits is corrected for their overlap: $s \sqrt{1/S + n_{out}/n_{in}}$ (Nadeau and Bengio).

    Source: algorithm 1 of the EEVEE paper: 100 hidden units, 20 epochs, AdamW, .01 and .01, ShuffleSplit. Not in the
        paper, and chosen here: ReLU, full batches, ten splits that hold out a tenth (as scikit-learn's ShuffleSplit).
    """

    objective: Objective = "all"
    epochs: int = 20
    hidden: int = 100
    lr: float = 0.01
    weight_decay: float = 0.01
    splits: int = 10
    held_out: float = 0.1
    seed: int = 0
    chunk: int | None = None

    def __post_init__(self) -> None:
        require_objective(self.objective)
        for name in ("epochs", "hidden", "splits"):
            if getattr(self, name) < 1:
                raise EeveeError(f"{name} is {getattr(self, name)}; expected at least 1")
        if not self.lr > 0 or not self.weight_decay >= 0:
            raise EeveeError(f"lr is {self.lr} and weight_decay {self.weight_decay}; expected > 0 and >= 0")
        if not 0 < self.held_out < 1:
            raise EeveeError(f"held_out is {self.held_out}; expected a share between 0 and 1, exclusive")
        if self.chunk is not None and self.chunk < 1:
            raise EeveeError(f"chunk is {self.chunk}; expected at least 1")

    @property
    def name(self) -> str:
        """Name in prints and results."""
        return "mlp"

    @property
    def batch(self) -> int:
        """Candidates in one call of `score`: few, so that progress is seen."""
        return 64

    def score(self, data: Standardised, candidates: Sequence[Sequence[int]]) -> Float[np.ndarray, "b 2"]:
        """Errors and standard errors of candidates."""
        out = np.empty((len(candidates), 2))
        splits = shuffled_splits(data.groups, self.splits, self.held_out, self.seed)
        starts = draw_starts(data.values.shape[1], self.hidden, self.splits, self.seed)
        widths = [len(data.metric_columns(candidate)) for candidate in candidates]
        order = np.argsort(widths, kind="stable")
        step = self.chunk or self.automatic_chunk(max(widths, default=1), data.values.shape[1])
        for begin in range(0, len(candidates), step):
            chosen = order[begin : begin + step]
            batch = [candidates[int(i)] for i in chosen]
            predicted = self._predictions(data, batch, ~splits, starts, data.values)
            out[chosen] = self._errors(data, batch, splits, predicted)
        return out

    def predict(
        self, data: Standardised, candidate: Sequence[int], inputs: Float[np.ndarray, "m metrics"]
    ) -> Float[np.ndarray, "m metrics"]:
        """Whole rows of models that took no part in `data`: the mean of `splits` networks trained on all of it."""
        everyone = np.ones((self.splits, len(data.values)), dtype=bool)
        starts = draw_starts(data.values.shape[1], self.hidden, self.splits, self.seed)
        predicted = self._predictions(data, [candidate], everyone, starts, np.nan_to_num(inputs))
        return np.asarray(predicted[0].mean(0).numpy(), dtype=np.float64)

    def automatic_chunk(self, width: int, metrics: int) -> int:
        """Candidates whose parameters, gradients and two moments fit the cache together."""
        parameters = (width + 1) * self.hidden + (self.hidden + 1) * metrics
        return max(1, CACHE_BYTES // (4 * 4 * parameters * self.splits))

    def _predictions(
        self,
        data: Standardised,
        batch: Sequence[Sequence[int]],
        train: Bool[np.ndarray, "s n"],
        starts: Starts,
        rows: Float[np.ndarray, "m metrics"],
    ) -> Float[Tensor, "c s m metrics"]:
        """Train a network for each candidate and split, and predict these rows with each."""
        columns = [data.metric_columns(candidate) for candidate in batch]
        width = max(len(c) for c in columns)
        blank = data.values.shape[1]
        index = torch.tensor([c + [blank] * (width - len(c)) for c in columns])
        sizes = torch.tensor([len(c) for c in columns], dtype=torch.float32)
        networks = _Networks(index, sizes, starts)
        size = int(train.sum(axis=1).max())
        order = np.argsort(~train, axis=1, kind="stable")[:, :size]  # training rows first; short splits get filler rows
        real = np.take_along_axis(train, order, axis=1)[:, :, None]
        weight = (data.mask & data.varies)[order] & real
        x = _inputs(data.values, index)[:, torch.from_numpy(order)]
        networks.train(
            x.reshape(-1, size, width + 1),
            torch.from_numpy(data.values[order]).float(),
            torch.from_numpy(weight).float(),
            self,
        )
        return networks.forward(_inputs(rows, index))

    def _errors(
        self,
        data: Standardised,
        batch: Sequence[Sequence[int]],
        splits: Bool[np.ndarray, "s n"],
        predicted: Float[Tensor, "c s n metrics"],
    ) -> Float[np.ndarray, "c 2"]:
        guess = predicted.double()
        truth = torch.from_numpy(data.values)
        out_of = torch.from_numpy(splits).double()
        cells = torch.from_numpy(data.mask & data.varies).double()[None]
        if self.objective == "unselected":
            cells = cells * unselected(data, batch)[:, None, :]
        squares = torch.einsum("csnt,cnt->csn", (guess - truth).square_(), cells.expand(len(batch), -1, -1))
        per_split = (squares * out_of).sum(-1) / (cells.sum(-1)[:, None] * out_of).sum(-1).clamp_min(1e-300)
        spread = per_split.std(dim=1) if self.splits > 1 else torch.full((len(batch),), math.nan)
        ratio = float(splits.sum() / max(1, (~splits).sum()))
        return torch.stack([per_split.mean(1), spread * math.sqrt(1 / self.splits + ratio)], dim=1).numpy()


class _Networks:
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

    def train(self, x: Tensor, y: Tensor, weight: Tensor, settings: MlpScorer) -> None:
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
            [self.flat], lr=settings.lr, weight_decay=settings.weight_decay, fused=True, betas=(0.9, 0.999), eps=1e-8
        )
        for _ in range(settings.epochs):
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


def shuffled_splits(
    groups: np.ndarray | Sequence[int], splits: int, held_out: float, seed: int
) -> Bool[np.ndarray, "s n"]:
    """Random splits; True marks a held-out model. Groups go to one side as a whole."""
    labels = np.asarray(groups)
    unique = np.unique(labels)
    if len(unique) < 2:
        raise EeveeError("all models are in one group; expected at least two groups")
    count = min(len(unique) - 1, math.ceil(held_out * len(unique)))
    generator = np.random.default_rng(seed)
    return np.stack([np.isin(labels, generator.permutation(unique)[:count]) for _ in range(splits)])


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
