"""How far a model is from equivariance on minimal pairs: residuals, one score a pair, and their distribution."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from eqben_builder.scoring.intervals import check_sampling
from eqben_builder.scoring.table import checked_scores

if TYPE_CHECKING:
    from jaxtyping import Float64
    from numpy.typing import ArrayLike, NDArray

Scale = Literal["given", "spread"]

_NORMAL = 20_000


class Residuals(NamedTuple):
    """Equivariance residuals, float64 [n] each; all are zero for a model whose scores change as the pair does.

    text: (s00 - s10) - (s11 - s01), how unevenly the two images tell the captions apart.
    image: (s00 - s01) - (s11 - s10), how unevenly the two captions tell the images apart.
    v1: s01 - s10, which is half of text minus image.

    Example:
        >>> residuals = equivariance_residuals([[[0.75, 0.25], [0.25, 0.75]]])
        >>> float(residuals.text[0]), float(residuals.image[0]), float(residuals.v1[0])
        (0.0, 0.0, 0.0)
    """

    text: Float64[np.ndarray, " n"]
    image: Float64[np.ndarray, " n"]
    v1: Float64[np.ndarray, " n"]


class Distribution(NamedTuple):
    """Equivariance scores of many pairs, summed up: 0 is best, and a tighter curve is a more equivariant model.

    mean, low, high: The mean and its bootstrap interval.
    quantiles: At 5, 25, 50, 75 and 95 %.
    edges: float64 [bins + 1], from 0 to the 99th percentile.
    density: float64 [bins]; its integral is the share of pairs within the edges.

    Example:
        >>> curve = equivariance_distribution([[[0.9, 0.2], [0.2, 0.9]], [[0.9, 0.2], [0.4, 0.5]]], bins=2)
        >>> round(curve.mean, 2), [round(value, 2) for value in curve.quantiles], curve.edges.shape, curve.density.shape
        (0.4, [0.04, 0.2, 0.4, 0.6, 0.76], (3,), (2,))
    """

    mean: float
    low: float
    high: float
    quantiles: tuple[float, float, float, float, float]
    edges: Float64[np.ndarray, " bins+1"]
    density: Float64[np.ndarray, " bins"]


def equivariance_residuals(scores: ArrayLike) -> Residuals:
    """How unevenly a model's scores answer to the same change, pair by pair.

    Args:
        scores: [n, 2, 2] with `scores[k, c, i]`, as in `winoground_scores`.

    Returns:
        The residuals on the text side, on the image side, and of the v1 form. text = d - a and image = d + a with
        d = s00 - s11 and a = s10 - s01 = -v1.

    Raises:
        ValueError: The shape that is wrong, or the first entry that is not finite.

    Example:
        >>> residuals = equivariance_residuals([[[0.75, 0.25], [0.5, 0.75]]])
        >>> residuals.text.tolist(), residuals.image.tolist(), residuals.v1.tolist()
        ([-0.25], [0.25], [-0.25])

    Source:
        EqSim's equivariance terms, read on one pair.
    """
    s = checked_scores(scores)
    text = (s[:, 0, 0] - s[:, 1, 0]) - (s[:, 1, 1] - s[:, 0, 1])
    image = (s[:, 0, 0] - s[:, 0, 1]) - (s[:, 1, 1] - s[:, 1, 0])
    return Residuals(text, image, s[:, 0, 1] - s[:, 1, 0])


def equivariance_scores(scores: ArrayLike, *, scale: Scale = "given") -> Float64[np.ndarray, " n"]:
    """One number a pair, 0 for an equivariant model: |text residual| + |image residual|.

    e = |d - a| + |d + a| = 2 max(|d|, |a|), with d = s00 - s11 and a = s10 - s01.

    Args:
        scores: [n, 2, 2] with `scores[k, c, i]`.
        scale: "given" takes the scores as they are: compare models only where they share a scale (cosines with
            cosines). "spread" divides by the standard deviation of all 4n scores, so that a model does not look
            equivariant because its scores hardly move.

    Returns:
        float64 [n], not negative.

    Raises:
        ValueError: As `equivariance_residuals`; an unknown scale; with "spread", scores that are all equal.

    Example:
        >>> equivariance_scores([[[1.0, 0.25], [0.5, 0.5]]]).tolist()
        [1.0]

    Source:
        The quantity of EqBen figure 6. Its formula did not survive in our copy of the paper: this is the sum of the
        absolute values of the two residuals of equation 6. "spread" is ours.
    """
    if scale not in ("given", "spread"):
        raise ValueError(f"scale {scale!r} is neither 'given' nor 'spread'")
    text, image, _ = equivariance_residuals(scores)
    errors: Float64[np.ndarray, " n"] = np.abs(text) + np.abs(image)
    if scale == "given":
        return errors
    spread = float(np.std(np.asarray(scores, dtype=np.float64)))
    if spread == 0.0:
        raise ValueError("all scores are equal: they have no spread to divide by")
    scaled: Float64[np.ndarray, " n"] = errors / spread
    return scaled


def equivariance_distribution(
    scores: ArrayLike,
    *,
    scale: Scale = "given",
    bins: int = 40,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Distribution:
    """The distribution of the equivariance scores, which the paper draws as its figure 6.

    Args:
        scores: [n, 2, 2] with `scores[k, c, i]`.
        scale: As in `equivariance_scores`.
        bins: Of the histogram, at least 1.
        level: Of the mean's interval, in (0, 1).
        resamples: Bootstrap samples of pairs, at least 1.
        seed: Of the bootstrap.

    Returns:
        A `Distribution`.

    Raises:
        ValueError: As `equivariance_scores`; bins, level or resamples out of range.

    Numerics:
        Edges end at the 99th percentile, so that one outlier does not flatten the curve; where that is 0, at 1. Of more
        than 20,000 pairs the mean's interval is the normal one, from which the bootstrap differs no more.

    Example:
        >>> curve = equivariance_distribution([[[0.9, 0.2], [0.2, 0.9]]] * 3, bins=2)
        >>> curve.mean, curve.quantiles[2], curve.density.tolist()
        (0.0, 0.0, [2.0, 0.0])
    """
    check_sampling(level, resamples, bins=bins)
    errors = equivariance_scores(scores, scale=scale)
    top = float(np.quantile(errors, 0.99)) or 1.0
    edges = np.linspace(0.0, top, bins + 1)
    counts = np.histogram(errors, edges)[0]
    low, high = _mean_interval(errors, level, resamples, seed)
    q05, q25, q50, q75, q95 = np.quantile(errors, (0.05, 0.25, 0.5, 0.75, 0.95)).tolist()
    density = counts / (len(errors) * np.diff(edges))
    return Distribution(float(errors.mean()), low, high, (q05, q25, q50, q75, q95), edges, density)


def _mean_interval(values: NDArray[np.float64], level: float, resamples: int, seed: int) -> tuple[float, float]:
    n, tail = len(values), (1 - level) / 2
    if n > _NORMAL:
        half = NormalDist().inv_cdf(1 - tail) * float(values.std()) / n**0.5
        return float(values.mean()) - half, float(values.mean()) + half
    rng = np.random.default_rng(seed)
    means = [values[rng.integers(0, n, n)].mean() for _ in range(resamples)]
    low, high = np.quantile(means, (tail, 1 - tail)).tolist()
    return low, high
