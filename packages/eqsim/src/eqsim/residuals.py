"""How squared residuals become a loss term: the margin, the mean, and the set of pairs they run over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import torch

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

Side = Literal["text", "image"]
MarginMode = Literal["mean", "pair"]
DistantReduction = Literal["mean", "reference"]


class PairSums(NamedTuple):
    """Sums of squared residuals over one set of ordered pairs, each square already clamped in margin mode "pair".

    Attributes:
        v1: sum of a^2.
        text: sum of (d - a)^2.
        image: sum of (d + a)^2.
    """

    v1: Tensor
    text: Tensor
    image: Tensor


class Terms(NamedTuple):
    """The unweighted terms of EqSim, each after its margin; a term that the mode does not have is an exact zero."""

    v1: Tensor
    v2_text: Tensor
    v2_image: Tensor
    relative: Tensor

    def total(self) -> Tensor:
        """Return their sum."""
        return self.v1 + self.v2_text + self.v2_image + self.relative


def clamped(squares: Tensor, margin: float, margin_mode: MarginMode) -> Tensor:
    """Subtract the margin from each square in mode "pair"; leave the squares alone in mode "mean"."""
    return torch.relu(squares - margin) if margin_mode == "pair" and margin > 0 else squares


def margin_mean(total: Tensor, count: Tensor | int, margin: float, margin_mode: MarginMode) -> Tensor:
    """Return max(total / count - margin, 0) in mode "mean", total / count in mode "pair"; 0 for an empty set."""
    mean = total / (count.clamp(min=1) if isinstance(count, torch.Tensor) else max(count, 1))
    return torch.relu(mean - margin) if margin_mode == "mean" and margin > 0 else mean


def first_occurrence(pairs: Int[Tensor, "p 2"], n: int) -> tuple[Int[Tensor, " p"], Float[Tensor, " p"]]:
    """Sort the pairs as unordered sets and mark the first of each set.

    Shapes depend on the input's shape alone, so nothing waits for the device.

    Returns:
        (order, first): `pairs[order]` is sorted, and `first` is 1 where a set occurs for the first time, else 0.
    """
    pairs = pairs.long()  # int32, which is taken too, would wrap from n = 46,341 on
    key = torch.minimum(pairs[:, 0], pairs[:, 1]) * n + torch.maximum(pairs[:, 0], pairs[:, 1])
    key, order = torch.sort(key)
    first = torch.ones_like(key, dtype=torch.bool)
    first[1:] = key[1:] != key[:-1]
    return order, first
