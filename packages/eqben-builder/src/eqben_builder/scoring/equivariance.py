"""How far a model is from equivariance on minimal pairs: one score a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from eqben_builder.scoring.table import checked_scores

if TYPE_CHECKING:
    from jaxtyping import Float64
    from numpy.typing import ArrayLike


def equivariance_scores(scores: ArrayLike, *, scale: Literal["given", "spread"] = "given") -> Float64[np.ndarray, " n"]:
    """One number a pair, 0 for an equivariant model: |text residual| + |image residual|.

    text = (s00 - s10) - (s11 - s01), how unevenly the two images tell the captions apart, and
    image = (s00 - s01) - (s11 - s10), how unevenly the two captions tell the images apart.

    Args:
        scores: [n, 2, 2] with `scores[k, c, i]`.
        scale: "given" takes the scores as they are: compare models only where they share a scale (cosines with
            cosines). "spread" divides by the standard deviation of all 4n scores, so that a model does not look
            equivariant because its scores hardly move.

    Returns:
        float64 [n], not negative.

    Raises:
        ValueError: As `winoground_scores`; an unknown scale; with "spread", scores that are all equal.

    Example:
        >>> equivariance_scores([[[1.0, 0.25], [0.5, 0.5]]]).tolist()
        [1.0]

    Source:
        The quantity of EqBen's figure 6, here the sum of the absolute values of the two residuals of equation 6.
        "spread" is ours.
    """
    if scale not in ("given", "spread"):
        raise ValueError(f"scale {scale!r} is neither 'given' nor 'spread'")
    s = checked_scores(scores)
    text = (s[:, 0, 0] - s[:, 1, 0]) - (s[:, 1, 1] - s[:, 0, 1])
    image = (s[:, 0, 0] - s[:, 0, 1]) - (s[:, 1, 1] - s[:, 1, 0])
    errors: Float64[np.ndarray, " n"] = np.abs(text) + np.abs(image)
    if scale == "given":
        return errors
    spread = float(np.std(s))
    if spread == 0.0:
        raise ValueError("all scores are equal: they have no spread to divide by")
    return np.asarray(errors / spread, dtype=np.float64)
