"""How squared residuals become a loss term: the margin, the mean, and the set of pairs they run over."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float, Int

    from eqsim.settings import MarginMode, Settings

RESIDUALS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "v1": lambda _, a: a,
    "text": lambda d, a: d - a,
    "image": lambda d, a: d + a,
}
"""What each term squares, from d = s_ii - s_jj and a = s_ij - s_ji of a pair."""


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


def residual_squares(term: str, d: Tensor, a: Tensor, margin: float, margin_mode: MarginMode) -> Tensor:
    """Return the squared residual of each pair, less the margin in mode "pair", but never below 0."""
    squares = RESIDUALS[term](d, a).square()
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


def sided_terms(settings: Settings, sums: PairSums, count: int) -> Terms:
    """Return v2's terms of the chosen sides from sums over `count` pairs."""
    zero = sums.v1 * 0.0
    text, image = (
        margin_mean(total, count, settings.margin, settings.margin_mode) if side in settings.sides else zero
        for side, total in (("text", sums.text), ("image", sums.image))
    )
    return Terms(zero, text, image, zero)


def assemble_terms(
    settings: Settings,
    n: int,
    everything: PairSums | None,
    listed: tuple[PairSums, Float[Tensor, ""], Int[Tensor, ""]] | None,
    list_length: int = 0,
) -> Terms:
    """Combine sums over all pairs and over the close list into terms.

    Args:
        settings: of the loss.
        n: samples in the whole batch.
        everything: sums over all n (n - 1) ordered pairs, where the mode needs them.
        listed: sums over the close list, a^2 over the set of its pairs, and the size of that set (`listed_sums`).
        list_length: pairs in the list, duplicates counted.

    Returns:
        The terms. Numerics: hybrid's distant sum is the sum over all pairs less the sum over the close ones, so its
        relative error grows where close pairs carry nearly all of sum a^2.
    """
    if settings.mode != "hybrid":
        sums, count = (listed[0], list_length) if listed is not None else (everything, n * (n - 1))
        if sums is None:
            msg = "neither sums over all pairs nor sums over a list were given"
            raise ValueError(msg)
        if settings.mode == "v2":
            return sided_terms(settings, sums, count)
        v1 = margin_mean(sums.v1, count, settings.margin_v1, settings.margin_mode)
        zero = sums.v1 * 0.0
        return Terms(v1, zero, zero, zero)
    if everything is None or listed is None:
        msg = "the hybrid needs sums over all pairs and over the close list"
        raise ValueError(msg)
    sums, close_v1, close_count = listed
    count_v1 = n * (n - 1) - close_count if settings.distant_reduction == "mean" else n * n
    v1 = margin_mean(everything.v1 - close_v1, count_v1, settings.margin_v1, settings.margin_mode)
    close = sided_terms(settings, sums, list_length)
    return Terms(v1, close.v2_text, close.v2_image, close.relative)
