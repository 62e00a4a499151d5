r"""The residuals of a pair, how their squares become a loss term, and what a known close pair is asked.

For a pair (i, j) with scores s, let d = s_ii - s_jj, a = s_ij - s_ji and M = (s_ii + s_jj - s_ij - s_ji) / 2. EqSim's
residuals are d - a on the text side and d + a on the image side, and

    s_ii - s_ij = M + (d - a) / 2,      s_jj - s_ji = M - (d - a) / 2,
    s_ii - s_ji = M + (d + a) / 2,      s_jj - s_ij = M - (d + a) / 2,

so all four comparisons of a known pair come out right exactly when M > (|d| + |a|) / 2: M is how far the pair is told
apart, and a pair is right when it is told apart by more than it is unequivariant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from eqsim.checks import check_hard, check_owners, check_pairs, check_positive, check_scores
from eqsim.features import at_least_float32
from eqsim.settings import EPSILON

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float, Int

    from eqsim.settings import Settings

RESIDUALS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "v1": lambda _, a: a,
    "v2_text": lambda d, a: d - a,
    "v2_image": lambda d, a: d + a,
}
"""What each term squares, from d = s_ii - s_jj and a = s_ij - s_ji of a pair."""


class PairSums(NamedTuple):
    """Sums of squared residuals over one set of ordered pairs, each less its margin where pairs have one."""

    v1: Tensor
    v2_text: Tensor
    v2_image: Tensor


class Terms(NamedTuple):
    """The unweighted terms of EqSim, each after its margin; a term that the mode does not have is an exact zero."""

    v1: Tensor
    v2_text: Tensor
    v2_image: Tensor
    relative: Tensor

    def total(self) -> Tensor:
        """Return their sum."""
        return self.v1 + self.v2_text + self.v2_image + self.relative


def beyond_margin(residual: Tensor, margin: float) -> Tensor:
    """Return max(residual^2 - margin, 0) of each pair."""
    squares = residual.square()
    return torch.relu(squares - margin) if margin > 0 else squares


def squared_sums(settings: Settings, d: Tensor, a: Tensor) -> PairSums:
    """Return the sum of squared residuals of each term that the mode has; 0 for the others."""
    zero = a.sum() * 0.0
    sums = (
        beyond_margin(residual(d, a), settings.margin_of_pairs(name)).sum() if name in settings.term_names else zero
        for name, residual in RESIDUALS.items()
    )
    return PairSums(*sums)


def margin_mean(total: Tensor, count: Tensor | int, margin: float) -> Tensor:
    """Return max(total / count - margin, 0); 0 for an empty set."""
    mean = total / (count.clamp(min=1) if isinstance(count, torch.Tensor) else max(count, 1))
    return torch.relu(mean - margin) if margin > 0 else mean


def mean_terms(
    settings: Settings, sums: PairSums, count: int, distant: tuple[Tensor, Tensor | int] | None = None
) -> Terms:
    """Turn sums over `count` pairs into the terms that the mode has; the hybrid's v1 comes from `distant`, its own."""
    v1, divisor = distant or (sums.v1, count)
    means = {"v1": (v1, divisor), "v2_text": (sums.v2_text, count), "v2_image": (sums.v2_image, count)}
    terms = dict.fromkeys(Terms._fields, sums.v1 * 0.0)
    off = {name: settings.margin_of(name) - settings.margin_of_pairs(name) for name in settings.term_names}
    return Terms(**(terms | {name: margin_mean(*means[name], off[name]) for name in settings.term_names}))


def relative_terms(settings: Settings, pairs: PairDifferences) -> Terms:
    """Return the terms of the relative form."""
    relative = mean_relative(pairs, settings.epsilon)
    zero = relative * 0.0
    return Terms(zero, zero, zero, relative)


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


def checked_scores(scores: Tensor, pairs: Tensor | None) -> Tensor:
    """Return the scores in at least float32, after a look at them and at the pairs."""
    check_scores(scores)
    if pairs is not None:
        check_pairs(pairs, scores.shape[0], scores.device)
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

    Source: ours. `experiments/eqsim_proof` compares it with known negatives upweighted in the contrastive loss.
    """
    return mean_pair_loss(pair_differences(checked_scores(logits, pairs), pairs))


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
    return mean_relative(pair_differences(checked_scores(scores, pairs), pairs), epsilon)


def hard_negative_loss(
    right: Float[Tensor, " n"],
    wrong: Float[Tensor, " m"],
    owners: Int[Tensor, " m"],
    *,
    focus: float = 2.0,
    smoothing: float = 0.02,
) -> Float[Tensor, ""]:
    """Each image's caption against its own false captions, with focal weights and smoothed targets.

    Over an image's 1 + k texts with softmax p and target q = (1 - b) [the caption] + b / (k + 1), the sum of
    -q (1 - p)^g log p; mean over all images, where one without false captions counts 0.

    Args:
        right: (n,) logits of each image and its own caption.
        wrong: (m,) logits of false captions.
        owners: (m,) the image that each of them is false for.
        focus: g >= 0; 0 is the plain cross-entropy.
        smoothing: b in [0, 1); 0 gives the caption all of the target.

    Returns:
        A scalar.

    Raises:
        ValueError: a negative focus, a smoothing outside [0, 1), an owner that is no image; shows it.

    Example:
        >>> import torch
        >>> right, wrong = torch.tensor([2.0, 0.0]), torch.tensor([0.0, 0.0])
        >>> round(float(hard_negative_loss(right, wrong, torch.tensor([0, 1]), focus=0, smoothing=0)), 4)
        0.41

    Source: "FSC-CLIP" (Oh et al., EMNLP 2024), selective calibrated regularisation; its term over patches is not here.
    """
    check_hard(focus, smoothing)
    check_owners(owners, wrong.shape[0], right.shape[0])
    return mean_hard_loss(at_least_float32(right), at_least_float32(wrong), owners, focus, smoothing)


def mean_hard_loss(
    right: Float[Tensor, " n"], wrong: Float[Tensor, " m"], owners: Int[Tensor, " m"], focus: float, smoothing: float
) -> Float[Tensor, ""]:
    """`hard_negative_loss` of logits that were looked at."""
    n = right.shape[0]
    number = torch.zeros_like(right).index_add(0, owners, torch.ones_like(wrong))
    top = right.detach().scatter_reduce(0, owners, wrong.detach(), "amax")
    total = torch.exp(right - top).index_add(0, owners, torch.exp(wrong - top[owners]))
    lse = top + total.log()
    share = smoothing / (number + 1)
    log_right, log_wrong = right - lse, wrong - lse[owners]
    losses = torch.where(number > 0, (1 - smoothing + share) * _focal(log_right, focus), torch.zeros_like(right))
    losses = losses.index_add(0, owners, share[owners] * _focal(log_wrong, focus))
    return losses.sum() / n


def _focal(log_p: Tensor, focus: float) -> Tensor:
    # 1 - p as -expm1(log p); at p = 1 its power has no slope below focus 1, so p stops a little short of 1.
    return -((-torch.expm1(log_p)).clamp(min=1e-30) ** focus) * log_p if focus > 0 else -log_p
