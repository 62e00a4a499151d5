"""Items drawn with known chances, and the estimate from them that holds whatever the model."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from scipy import special
from scipy.cluster import vq

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from eevee.items.irt import Irt

TRUST = 10.0
PRIOR = 3.0
TRANSLATED = 0.75
"""Deviations of an estimate that it moves towards a model's, at most."""
DOUBTED = 3.0
"""Errors of the slope by which it is off where the items' model is trusted by half."""
PULLED = 32.0
"""Doubt where the prior moves an ability by one of its errors."""
EVENTS = 0.1
"""Unexplained variance that is added to the drawn items' of which few are solved, or few are not."""


def draw_items(
    ease: Float[np.ndarray, " items"], count: int, generator: np.random.Generator
) -> Int[np.ndarray, " count"]:
    """Draw items, each with the chance count / items: at even steps from the hardest to the easiest.

    Source: systematic sampling from an ordered list (Madow and Madow, 1944). Chances that grow with how unsure an item
        is were tried: they gain 4 % where models are alike, and cost 14 % where one is better than all before.
    """
    step = len(ease) / count
    ranks = np.argsort(np.lexsort((generator.random(len(ease)), ease)))
    order = np.argsort(ranks + 2 * step * generator.random(len(ease)))
    return np.sort(order[((np.arange(count) + generator.random()) * step).astype(np.int64)])


def calibrated(
    values: Float[np.ndarray, "n count"], predicted: Float[np.ndarray, "n count"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Slope of outcomes on what is predicted of them (1 by as much as ten items say), its error, and the residual."""
    measured = ~np.isnan(values)
    count = measured.sum(1)
    off, spread = (np.where(measured, part - _average(part, measured)[:, None], 0.0) for part in (values, predicted))
    square = (spread**2).sum(1) / count
    trust = TRUST / count
    slope = ((off * spread).sum(1) / count + trust * square) / np.maximum((1 + trust) * square, 1e-12)
    residual = ((off - np.clip(slope, 0, 1)[:, None] * spread) ** 2).sum(1) / count
    return slope, np.sqrt(residual / np.maximum((count + TRUST) * square, 1e-12)), residual


def leaned(
    value: Float[np.ndarray, " n"],
    deviation: Float[np.ndarray, " n"],
    model: Float[np.ndarray, " n"],
    doubt: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """Estimates that hold for any model, moved towards what the items' model says, by half where the doubt in it is 1.

    Source: limited translation (Efron and Morris, 1972).
    """
    most = TRANSLATED * deviation
    return np.asarray(value + np.clip((model - value) / (1 + doubt), -most, most))


def doubts(
    slope: Float[np.ndarray, " n"],
    error: Float[np.ndarray, " n"],
    ability: Float[np.ndarray, " n"],
    information: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """How little the items' model is to be trusted about each of n models.

    Outcomes do not follow it where their slope on what it says is not 1 by more than its error, and where the items
    tell little of a model that is far from the known ones, its ability is the prior's.
    """
    return np.asarray(((1 - slope) / np.maximum(DOUBTED * error, 1e-12)) ** 2 + PULLED * ability**2 / (1 + information))


def _average(part: np.ndarray, measured: np.ndarray) -> np.ndarray:
    return np.asarray(np.where(measured, part, 0.0).sum(1) / measured.sum(1))


def corrected_mean(
    values: Float[np.ndarray, "n count"],
    predicted: Float[np.ndarray, "n count"],
    mean: Float[np.ndarray, " n"],
    total: int,
    level: float,
    known: tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]] | None = None,
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Mean outcome over all items: the drawn items' mean, moved by what a predictor says of the others.

    `known` are abilities of the models, and what the items tell of them, where the predictor is the items' model: the
    value then leans on it, and the interval stays.
    """
    measured = ~np.isnan(values)
    count = measured.sum(1)
    solved, expected = _average(values, measured), _average(predicted, measured)
    slope, error, residual = calibrated(values, predicted)
    value = np.clip(solved + np.clip(slope, 0, 1) * (mean - expected), 0, 1)
    freedom = np.maximum(count - 1 - count / (count + TRUST), 1)
    likely = _average(predicted * (1 - predicted), measured)
    unexplained = (count * residual * count / freedom + PRIOR * likely + EVENTS) / (
        count * solved * (1 - solved) + PRIOR * expected * (1 - expected) + EVENTS
    )
    width = special.stdtrit(freedom + PRIOR, (1 + level) / 2) ** 2 * unexplained * (1 / count - 1 / total)
    centre, half = (value + width / 2) / (1 + width), np.sqrt(value * (1 - value) * width + width**2 / 4) / (1 + width)
    low = np.where(solved > 0, np.minimum(centre - half, value), 0.0)  # nothing solved may be nothing at all
    high = np.where(solved < 1, np.maximum(centre + half, value), 1.0)
    if known is None:
        return value, low, high
    deviation = np.sqrt(residual * count / freedom * (1 / count - 1 / total))
    model = mean + (solved - expected) * count / total  # the drawn items' outcomes in place of what it says of them
    return np.clip(leaned(value, deviation, model, doubts(slope, error, *known)), low, high), low, high


GRID = np.linspace(-2.5, 2.5, 21)
TURNS = 15


def choose_anchors(
    irt: Irt, count: int, generator: np.random.Generator
) -> tuple[Int[np.ndarray, " count"], Float[np.ndarray, " count"]]:
    """Choose items by k-means of their curves (chances along ability), and the weights by which they stand for all.

    Of each cluster the item nearest to its middle, weighted by the cluster's size; where equal curves leave clusters
    empty, crowded ones give several items.

    Source: tinyBenchmarks (Polo et al., 2024).
    """
    curves = irt.probability(GRID).T.astype(np.float32)  # half the time
    middle = curves[generator.choice(len(curves), count, replace=False)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of empty clusters, which keep their middles
        middle, _ = vq.kmeans2(curves, middle, iter=TURNS, minit="matrix")
    nearest, distance = vq.vq(curves, middle)
    size = np.bincount(nearest, minlength=count)
    seats = (size > 0).astype(np.int64)
    for _ in range(count - int(seats.sum())):
        seats[(size / np.maximum(seats, 1) * (seats < size)).argmax()] += 1
    chosen, weight = [], []
    for cluster in np.flatnonzero(seats):
        members = np.flatnonzero(nearest == cluster)
        chosen += members[np.argsort(distance[members], kind="stable")[: seats[cluster]]].tolist()
        weight += [size[cluster] / seats[cluster]] * int(seats[cluster])
    order = np.argsort(chosen)
    return np.array(chosen)[order], (np.array(weight) / len(curves))[order]
