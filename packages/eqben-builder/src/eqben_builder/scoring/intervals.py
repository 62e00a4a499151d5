"""Intervals of shares that keep a width where everything, or nothing, was right."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float64

#: Rights or wrongs below which resampling says too little: what was hardly seen is hardly drawn.
FEW = 10


class Share(NamedTuple):
    """A share of pairs, in [0, 1], with an interval and what chance would give.

    Example:
        >>> from eqben_builder import winoground_scores
        >>> share = winoground_scores([[[0.9, 0.1], [0.2, 0.8]]] * 20).group
        >>> share.value, round(share.low, 2), share.high, round(share.chance, 3)
        (1.0, 0.84, 1.0, 0.167)
    """

    value: float
    low: float
    high: float
    chance: float


def check_sampling(level: float, resamples: int, **least_one: int) -> None:
    """Refuse an interval's level outside (0, 1), and numbers below 1."""
    numbers = {**least_one, "resamples": resamples}
    if not 0.0 < level < 1.0 or min(numbers.values()) < 1:
        stated = ", ".join(f"{name} = {value!r}" for name, value in {"level": level, **numbers}.items())
        raise ValueError(f"{stated}: expected a level within (0, 1), and at least 1")


def share_of(value: float, draws: Float64[np.ndarray, " r"], chance: float, trials: float, tail: float) -> Share:
    """A share with the quantiles of its resampled values, or with Wilson's interval where few were right, or wrong.

    Wilson's where n p < 10 or n (1 - p) < 10: at p = 0 and 1 resampling has nothing to vary.

    Source:
        Wilson (1927); Brown, Cai and DasGupta (2001) on its coverage.
    """
    if trials * min(value, 1 - value) >= FEW:
        low, high = np.quantile(draws, (tail, 1 - tail)).tolist()
        return Share(value, low, high, chance)
    from paired_scores import wilson

    return Share(value, *wilson(min(1.0, max(0.0, value)), trials, 1 - 2 * tail), chance)


def effective(weights: Float64[np.ndarray, " c"], trials: list[float]) -> float:
    """How many equal trials a weighted mean of cells varies as much as: 1 / sum of w^2 / n."""
    return float(1 / sum(w * w / n for w, n in zip(weights.tolist(), trials, strict=True)))
