"""Items drawn with known chances, and the estimate from them that holds whatever the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from jaxtyping import Float, Int

TRUST = 10.0
PRIOR = 3.0
EVENTS = 0.1
"""Unexplained variance that is added to the drawn items' of which few are solved, or few are not."""


def draw_items(
    ease: Float[np.ndarray, " items"], count: int, generator: np.random.Generator
) -> Int[np.ndarray, " count"]:
    """Draw items, each with the chance count / items: at even steps from the hardest to the easiest.

    Args:
        ease: of each item, such as the share of known models that solve it; neighbours within two steps of each other
            change places at random, so that a draw is one of many.
        count: how many, at most all.
        generator: of the draw.

    Source: systematic sampling from an ordered list (Madow and Madow, 1944). Chances that grow with how unsure an item
        is were tried: they gain 4 % where models are alike, and cost 14 % where one is better than all before.
    """
    step = len(ease) / count
    ranks = np.argsort(np.lexsort((generator.random(len(ease)), ease)))
    order = np.argsort(ranks + 2 * step * generator.random(len(ease)))
    return np.sort(order[((np.arange(count) + generator.random()) * step).astype(np.int64)])


def corrected_mean(
    values: Float[np.ndarray, "n count"],
    predicted: Float[np.ndarray, "n count"],
    mean: Float[np.ndarray, " n"],
    total: int,
    level: float,
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Mean outcome over all items: the drawn items' mean, moved by what a predictor says of the others.

    Args:
        values: outcomes of the drawn items, 0 to 1, for each of n models; NaN where not measured.
        predicted: what the predictor says of them.
        mean: what it says of all items together.
        total: number of all items.
        level: of the intervals.
    """
    measured = ~np.isnan(values)
    count = measured.sum(1)

    def average(part: np.ndarray) -> np.ndarray:
        return np.asarray(np.where(measured, part, 0.0).sum(1) / count)

    solved, expected = average(values), average(predicted)
    off, spread = values - solved[:, None], predicted - expected[:, None]
    square = average(spread**2)
    trust = TRUST / count
    slope = np.clip((average(off * spread) + trust * square) / np.maximum((1 + trust) * square, 1e-12), 0, 1)
    value = np.clip(solved + slope * (mean - expected), 0, 1)
    freedom = np.maximum(count - 1 - count / (count + TRUST), 1)
    residual = average((off - slope[:, None] * spread) ** 2) * count / freedom
    unexplained = (count * residual + PRIOR * average(predicted * (1 - predicted)) + EVENTS) / (
        count * solved * (1 - solved) + PRIOR * expected * (1 - expected) + EVENTS
    )
    width = special.stdtrit(freedom + PRIOR, (1 + level) / 2) ** 2 * unexplained * (1 / count - 1 / total)
    centre, half = (value + width / 2) / (1 + width), np.sqrt(value * (1 - value) * width + width**2 / 4) / (1 + width)
    low = np.where(solved > 0, np.minimum(centre - half, value), 0.0)  # nothing solved may be nothing at all
    return value, low, np.where(solved < 1, np.maximum(centre + half, value), 1.0)
