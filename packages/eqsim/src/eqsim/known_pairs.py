r"""What a known close pair is asked: that the four wrong-against-right comparisons come out right.

For a pair (i, j) with scores s, let d = s_ii - s_jj, a = s_ij - s_ji and M = (s_ii + s_jj - s_ij - s_ji) / 2. Then

    s_ii - s_ij = M + (d - a) / 2,      s_jj - s_ji = M - (d - a) / 2,
    s_ii - s_ji = M + (d + a) / 2,      s_jj - s_ij = M - (d + a) / 2,

so all four are positive exactly when M > (|d| + |a|) / 2: M is how far the pair is told apart, d and a are EqSim's two
residuals, and a pair is right when it is told apart by more than it is unequivariant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F

from eqsim.checks import check_pairs, check_positive, check_scores
from eqsim.features import at_least_float32

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

EPSILON = 1e-2
"""e of the relative form: cosines of a pair differ by some hundredths."""


class PairDifferences(NamedTuple):
    """Three numbers for each pair: d = s_ii - s_jj, a = s_ij - s_ji, twice_m = s_ii + s_jj - s_ij - s_ji."""

    d: Tensor
    a: Tensor
    twice_m: Tensor


def pair_differences(scores: Float[Tensor, "n n"], pairs: Int[Tensor, "p 2"]) -> PairDifferences:
    """Take the three numbers of each pair from a score matrix."""
    diagonal = scores.diagonal()
    i, j = pairs[:, 0], pairs[:, 1]
    own = diagonal[i], diagonal[j]
    s_ij, s_ji = scores[i, j], scores[j, i]
    return PairDifferences(own[0] - own[1], s_ij - s_ji, (own[0] - s_ij) + (own[1] - s_ji))


def mean_pair_loss(pairs: PairDifferences) -> Float[Tensor, ""]:
    """Return the mean over pairs and their four comparisons of softplus(wrong - right), of differences of logits."""
    d, a, twice_m = pairs
    if d.shape[0] == 0:
        return twice_m.sum() * 0.0
    right = torch.stack([twice_m + d - a, twice_m - d + a, twice_m + d + a, twice_m - d - a]) / 2
    # logsigmoid keeps every digit where softplus switches to x at 20.
    return -F.logsigmoid(right).mean()


def mean_relative(pairs: PairDifferences, epsilon: float) -> Float[Tensor, ""]:
    """Return the mean over pairs of softplus(log(|d| + |a| + e) - log(2 max(M, 0) + e))."""
    d, a, twice_m = pairs
    if d.shape[0] == 0:
        return twice_m.sum() * 0.0
    return torch.log1p((d.abs() + a.abs() + epsilon) / (torch.relu(twice_m) + epsilon)).mean()


def _checked(scores: Tensor, pairs: Tensor) -> Tensor:
    check_scores(scores)
    values = scores.device.type == "cpu" and not torch.compiler.is_compiling()
    check_pairs(pairs, scores.shape[0], scores.device, values=values)
    return at_least_float32(scores)


def pair_loss(logits: Float[Tensor, "n n"], pairs: Int[Tensor, "p 2"]) -> Float[Tensor, ""]:
    """Cross-entropy of the four comparisons that make a known pair right: each text and each image against the other.

    Mean over pairs of the softplus of L_ij - L_ii, L_ji - L_ii, L_ij - L_jj and L_ji - L_jj.

    Args:
        logits: (n, n) scaled scores; rows are images, columns are texts.
        pairs: (p, 2) pairs of indices; (i, j) and (j, i) give the same.

    Returns:
        A scalar; log 2 where the model tells nothing apart, 0 when there is no pair.

    Raises:
        ValueError: the shape of `logits`, a pair out of range or of a sample with itself; shows the value.

    Example:
        >>> import torch
        >>> pair_loss(torch.zeros(2, 2), torch.tensor([[0, 1]]))
        tensor(0.6931)

    Source: ours; of the losses tried beside EqSim in `experiments/eqsim_proof` the simplest that raises group scores.
    """
    return mean_pair_loss(pair_differences(_checked(logits, pairs), pairs))


def eqsim_relative(
    scores: Float[Tensor, "n n"], pairs: Int[Tensor, "p 2"], *, epsilon: float = EPSILON
) -> Float[Tensor, ""]:
    r"""Experimental: equivariance in proportion to how far a pair is told apart, so that shrinking does not help.

    Mean over pairs of softplus(log(|d| + |a| + e) - log(2 max(M, 0) + e)) = log(1 + (|d| + |a| + e) / (2 M + e)).
    A pair is right exactly when |d| + |a| < 2 M; multiplying all scores by c leaves the term as it is, up to e.
    With r = |d| + |a| and M > 0 the gradients are

        with respect to |d| and |a|     1 / (r + 2 M + 2 e),
        with respect to 2 M            -(r + e) / ((2 M + e) (r + 2 M + 2 e)),

    so as M falls to 0 the pull on it grows, to at most 1 / e; for M < 0 it is 0, and only d and a are pulled: such a
    pair is left to the contrastive loss or to `pair_loss`. e bounds that pull and keeps log finite where d = a = 0.

    Args:
        scores: (n, n), any real values; rows are images, columns are texts.
        pairs: (p, 2) pairs of indices; (i, j) and (j, i) give the same.
        epsilon: e > 0, in units of the scores: well below 2 M of pairs that are told apart.

    Returns:
        A scalar; 0 when there is no pair.

    Raises:
        ValueError: as `pair_loss`; also epsilon <= 0.

    Example:
        >>> import torch
        >>> scores = torch.tensor([[0.9, 0.5], [0.3, 0.8]])
        >>> round(float(eqsim_relative(scores, torch.tensor([[0, 1]]), epsilon=1e-6)), 4)
        0.2877

    Numerics: a unit row of float32 is off by up to 6e-8 in length, which d and a see in full, so e should stay above
        1e-6.

    Source: ours; EqSim's residuals (equation 6 of "EqSim/EqBen") over the pair's own margin.
    """
    check_positive(epsilon=epsilon)
    return mean_relative(pair_differences(_checked(scores, pairs), pairs), epsilon)
