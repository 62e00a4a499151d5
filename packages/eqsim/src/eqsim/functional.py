"""EqSim on a score matrix, or on four scores for each pair: the terms as plain differentiable functions.

Throughout, `scores[i, j]` is score(image i, text j), d = s_ii - s_jj and a = s_ij - s_ji. The text-side residual of an
ordered pair is d - a, the image-side residual is d + a. Half-precision scores are reduced in float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from eqsim.checks import check_non_negative
from eqsim.close_pairs import select_close_pairs
from eqsim.features import at_least_float32
from eqsim.residuals import (
    Terms,
    beyond_margin,
    checked_scores,
    eqsim_relative,
    hard_negative_loss,
    mean_terms,
    pair_differences,
    pair_loss,
    relative_terms,
    squared_sums,
)
from eqsim.settings import DistantReduction, MarginMode, Settings, Side

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int
    from torch import Tensor

__all__ = [
    "eqsim_hybrid",
    "eqsim_quad",
    "eqsim_relative",
    "eqsim_v1",
    "eqsim_v2",
    "equivariance_score",
    "hard_negative_loss",
    "pair_loss",
    "select_close_pairs",
]

BOTH_SIDES: tuple[Side, Side] = ("text", "image")


def differences(scores: Tensor, pairs: Tensor | None) -> tuple[Tensor, Tensor, int]:
    """Return d, a and the number of ordered pairs: for all pairs as (n, n) matrices, for a list as (p,) vectors."""
    if pairs is None:
        diagonal, n = scores.diagonal(), scores.shape[0]
        return diagonal[:, None] - diagonal[None, :], scores - scores.mT, n * (n - 1)
    listed = pair_differences(scores, pairs)
    return listed.d, listed.a, pairs.shape[0]


def distant_squares(settings: Settings, scores: Tensor, close_pairs: Tensor) -> tuple[Tensor, Tensor | int]:
    """Return the sum of a^2 over the pairs that are in the list in neither order, and what it is divided by."""
    n = scores.shape[0]
    distant = ~torch.eye(n, dtype=torch.bool, device=scores.device)
    i, j = close_pairs[:, 0], close_pairs[:, 1]
    no = torch.zeros((), dtype=torch.bool, device=scores.device)
    distant = distant.index_put((torch.cat([i, j]), torch.cat([j, i])), no)
    squares = beyond_margin(scores - scores.mT, settings.margin_of_pairs("v1"))
    total = torch.where(distant, squares, torch.zeros_like(squares)).sum()
    return total, settings.distant_divisor(n, distant.sum())


def matrix_terms(settings: Settings, scores: Tensor, pairs: Tensor | None) -> Terms:
    """Evaluate the terms that a mode has on a score matrix; `pairs` were looked at."""
    if settings.mode == "relative" and pairs is not None:
        return relative_terms(settings, pair_differences(scores, pairs))
    d, a, count = differences(scores, pairs)
    distant = distant_squares(settings, scores, pairs) if settings.mode == "hybrid" and pairs is not None else None
    return mean_terms(settings, squared_sums(settings, d, a), count, distant)


def eqsim_v1(
    scores: Float[Tensor, "n n"],
    pairs: Int[Tensor, "p 2"] | None = None,
    *,
    margin: float = 0.0,
    margin_mode: MarginMode = "mean",
) -> Float[Tensor, ""]:
    """Mean squared difference of the two off-diagonal scores of a pair, (s_ij - s_ji)^2.

    Args:
        scores: (n, n), any real values; rows are images, columns are texts.
        pairs: (p, 2) ordered pairs (i, j), i != j, duplicates counted; None means all n (n - 1) ordered pairs.
        margin: >= 0, in squared score units, taken off the mean, which then is at least 0.
        margin_mode: "mean" gives max(mean - margin, 0), "pair" the mean over pairs of max(square - margin, 0).

    Returns:
        A scalar; 0 when there is no pair (n = 1, or an empty list).

    Raises:
        ValueError: the shape of `scores`, a pair out of range or of a sample with itself (read on the CPU only),
            a negative margin; each message shows the value.

    Example:
        >>> import torch
        >>> eqsim_v1(torch.tensor([[1.0, 0.5], [0.25, 1.0]]))
        tensor(0.0625)

    Source: "EqSim/EqBen" section 3, equation 6, the term for distant pairs, as a mean squared error. The authors' code
        divides by n^2 instead of the number of pairs: that is `distant_reduction="reference"` of `eqsim_hybrid`.
    """
    check_non_negative(margin=margin)
    return matrix_terms(
        Settings("v1", margin_v1=margin, margin_mode=margin_mode), checked_scores(scores, pairs), pairs
    ).total()


def eqsim_v2(
    scores: Float[Tensor, "n n"],
    pairs: Int[Tensor, "p 2"] | None = None,
    *,
    sides: Sequence[Side] = BOTH_SIDES,
    margin: float = 0.0,
    margin_mode: MarginMode = "mean",
) -> Float[Tensor, ""]:
    """Sum over the sides of the mean squared difference of score changes.

    Text side ((s_ii - s_ij) - (s_jj - s_ji))^2, image side ((s_ii - s_ji) - (s_jj - s_ij))^2. With both sides and no
    margin this is 2 mean d^2 + 2 mean a^2.

    Args:
        scores: (n, n), any real values; rows are images, columns are texts.
        pairs: (p, 2) ordered pairs, duplicates counted; None means all n (n - 1) ordered pairs.
        sides: "text", "image" or both.
        margin: >= 0, taken off each side; see `eqsim_v1`.
        margin_mode: where the margin is taken off; see `eqsim_v1`.

    Returns:
        A scalar; 0 when there is no pair.

    Raises:
        ValueError: as `eqsim_v1`; also unknown sides.

    Example:
        >>> import torch
        >>> eqsim_v2(torch.tensor([[1.0, 0.5], [0.25, 0.5]]), sides=("text",))
        tensor(0.0625)

    Source: "EqSim/EqBen" section 3, equation 6, the term for close pairs; the margin per side as in the authors' code.
    """
    settings = Settings("v2", sides=sides, margin=margin, margin_mode=margin_mode)
    return matrix_terms(settings, checked_scores(scores, pairs), pairs).total()


def eqsim_hybrid(
    scores: Float[Tensor, "n n"],
    close_pairs: Int[Tensor, "p 2"],
    *,
    sides: Sequence[Side] = BOTH_SIDES,
    margin: float = 0.0,
    margin_v1: float = 0.0,
    margin_mode: MarginMode = "mean",
    distant_reduction: DistantReduction = "mean",
) -> Float[Tensor, ""]:
    """v2 over the close list plus v1 over the pairs that are in it in neither order.

    Args:
        scores: (n, n), any real values; rows are images, columns are texts.
        close_pairs: (p, 2) ordered pairs; duplicates count in v2, not in the set that v1 leaves out.
        sides: the sides of v2.
        margin: >= 0, taken off each side of v2.
        margin_v1: >= 0, taken off v1.
        margin_mode: where the margins are taken off; see `eqsim_v1`.
        distant_reduction: "mean" divides by the number of distant pairs, as the paper writes; "reference" by n^2,
            as the authors' code does.

    Returns:
        A scalar.

    Raises:
        ValueError: as `eqsim_v1`.

    Example:
        >>> import torch
        >>> scores = torch.tensor([[1.0, 0.5, 0.0], [0.25, 1.0, 0.0], [0.5, 0.0, 1.0]])
        >>> eqsim_hybrid(scores, torch.tensor([[0, 1]]))
        tensor(0.2500)

    Source: "EqSim/EqBen" section 3 and figure 4.
    """
    settings = Settings(
        sides=sides,
        margin=margin,
        margin_v1=margin_v1,
        margin_mode=margin_mode,
        distant_reduction=distant_reduction,
    )
    return matrix_terms(settings, checked_scores(scores, close_pairs), close_pairs).total()


def eqsim_quad(
    s_ii: Float[Tensor, "*p"],
    s_ij: Float[Tensor, "*p"],
    s_ji: Float[Tensor, "*p"],
    s_jj: Float[Tensor, "*p"],
    *,
    sides: Sequence[Side] = BOTH_SIDES,
    margin: float = 0.0,
    margin_mode: MarginMode = "mean",
) -> Float[Tensor, ""]:
    """v2 from the four scores of each pair, for models that give a score for a pair of inputs only.

    Args:
        s_ii: score(image i, text i), any shape; the four shapes must agree.
        s_ij: score(image i, text j).
        s_ji: score(image j, text i).
        s_jj: score(image j, text j).
        sides: "text", "image" or both.
        margin: >= 0, taken off each side.
        margin_mode: where the margin is taken off; see `eqsim_v1`.

    Returns:
        A scalar.

    Raises:
        ValueError: shapes that differ, unknown sides, a negative margin.

    Example:
        >>> import torch
        >>> eqsim_quad(*(torch.tensor([x]) for x in (0.9, 0.2, 0.4, 0.9)))
        tensor(0.0800)

    Source: "EqSim/EqBen" section 3, equation 6, with scores of an image-text-matching head.
    """
    return quad_terms(
        Settings("v2", sides=sides, margin=margin, margin_mode=margin_mode), s_ii, s_ij, s_ji, s_jj
    ).total()


def quad_terms(settings: Settings, *scores: Tensor) -> Terms:
    """Evaluate v1 or v2 on quadruples of scores, in the order of `eqsim_quad`."""
    shapes = [tuple(score.shape) for score in scores]
    if len(set(shapes)) != 1:
        raise ValueError(f"s_ii, s_ij, s_ji, s_jj have shapes {shapes}: expected one shape")
    s_ii, s_ij, s_ji, s_jj = map(at_least_float32, scores)
    return mean_terms(settings, squared_sums(settings, s_ii - s_jj, s_ij - s_ji), s_ii.numel())


def equivariance_score(scores: Float[Tensor, "n n"], pairs: Int[Tensor, "p 2"] | None = None) -> Float[Tensor, " p"]:
    """How far each pair is from equivariance: |text-side residual| + |image-side residual|, 0 when exact.

    |d - a| + |d + a| = 2 max(|d|, |a|). The smaller, the better; scores of different models are comparable only on
    one scale (cosine, or softmax).

    Args:
        scores: (n, n), rows are images, columns are texts.
        pairs: (p, 2) pairs; None means the n (n - 1) / 2 unordered pairs i < j (both orders have the same score).

    Returns:
        One value for each pair.

    Raises:
        ValueError: as `eqsim_v1`.

    Example:
        >>> import torch
        >>> equivariance_score(torch.tensor([[1.0, 0.5], [0.25, 0.5]]))
        tensor([1.])

    Source: the quantity that "EqSim/EqBen" figure 6 plots, read as the sum of the absolute values of the two residuals
        of equation 6.
    """
    scores = checked_scores(scores, pairs)
    if pairs is None:
        n = scores.shape[0]
        pairs = torch.triu_indices(n, n, 1, device=scores.device).T
    d, a, _ = pair_differences(scores, pairs)
    return (d - a).abs() + (d + a).abs()
