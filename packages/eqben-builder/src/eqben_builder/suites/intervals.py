"""The interval of a share from its resampled values, with a width also where resampling has nothing to vary."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from eqben_builder.scoring.winoground import Share

if TYPE_CHECKING:
    from jaxtyping import Float64


def share_of(value: float, draws: Float64[np.ndarray, " r"], chance: float, clusters: int, tail: float) -> Share:
    """A share with the quantiles of its draws; at 0 and 1 Wilson's interval over the clusters.

    At p = 0 and p = 1, Wilson's (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n) is [0, w] and [1 - w, 1] with
    w = z^2/n / (1 + z^2/n).

    Args:
        value: The share itself.
        draws: Resampled values.
        chance: What chance gives.
        clusters: How many independent things were sampled, at least 1.
        tail: Share of the draws beyond each end, in (0, 1/2).

    Example:
        >>> share_of(1.0, np.ones(10), 0.5, 6, 0.025).low < 0.7
        True
    """
    low, high = np.quantile(draws, (tail, 1 - tail)).tolist()
    if value in (0.0, 1.0) and low == high:
        z = NormalDist().inv_cdf(1 - tail)
        width = z * z / clusters / (1 + z * z / clusters)
        low, high = (0.0, width) if value == 0.0 else (1 - width, 1.0)
    return Share(value, float(low), float(high), chance)
