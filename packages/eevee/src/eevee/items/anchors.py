"""The few items that stand for all: by clusters of what items ask for, or by what they say about ability."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from eevee.errors import EeveeError
from eevee.items.irt import sigmoid

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from eevee.items.irt import Irt

ANCHORS = ("clusters", "information", "random")
GRID = np.linspace(-2.5, 2.5, 21)
TURNS = 15


def choose_anchors(
    irt: Irt, count: int, method: str, generator: np.random.Generator
) -> tuple[Int[np.ndarray, " count"], Float[np.ndarray, " count"]]:
    """Choose items, and the weights by which their outcomes stand for all.

    - `clusters`: k-means of the items' curves (chances along ability); of each cluster the item nearest to its middle,
      weighted by the cluster's size; where equal curves leave clusters empty, crowded ones give several items;
    - `information`: items in strata of difficulty that hold equally much of the benchmark's slope; of each the one that
      tells most, weighted by the stratum's number of items;
    - `random`: equal weights.

    Args:
        irt: of all items.
        count: how many, 1 to all.
        method: one of `ANCHORS`.
        generator: of what is random.

    Source: clustering by item response parameters is tinyBenchmarks' (Polo et al., 2024); information per item is
        Lord's (1980).
    """
    total = len(irt.slope)
    if not 1 <= count <= total:
        raise EeveeError(f"{count} items are to be chosen of {total}; expected 1 to {total}")
    if method == "random":
        chosen = np.sort(generator.choice(total, count, replace=False))
        return chosen, np.full(count, 1 / count)
    if method == "clusters":
        return _clusters(irt.probability(GRID).T, count, generator)
    if method == "information":
        return _strata(irt, count)
    raise EeveeError(f"method {method!r}; expected one of {', '.join(ANCHORS)}")


def _clusters(
    curves: Float[np.ndarray, "items grid"], count: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    middle = curves[generator.choice(len(curves), count, replace=False)]
    nearest = np.zeros(len(curves), dtype=np.int64)
    for _ in range(TURNS):
        nearest = _nearest(curves, middle)
        size = np.bincount(nearest, minlength=count)
        total = np.zeros_like(middle)
        np.add.at(total, nearest, curves)
        middle = np.where(size[:, None] > 0, total / np.maximum(size, 1)[:, None], middle)
    nearest = _nearest(curves, middle)
    distance = ((curves - middle[nearest]) ** 2).sum(1)
    size = np.bincount(nearest, minlength=count)
    seats = (size > 0).astype(np.int64)
    for _ in range(count - int(seats.sum())):  # equal curves leave clusters empty: their seats go to the crowded
        seats[(size / np.maximum(seats, 1) * (seats < size)).argmax()] += 1
    chosen, weight = [], []
    for cluster in np.flatnonzero(seats):
        members = np.flatnonzero(nearest == cluster)
        chosen += members[np.argsort(distance[members], kind="stable")[: seats[cluster]]].tolist()
        weight += [size[cluster] / seats[cluster]] * int(seats[cluster])
    order = np.argsort(chosen)
    return np.array(chosen)[order], (np.array(weight) / len(curves))[order]


def _nearest(curves: np.ndarray, middle: np.ndarray) -> np.ndarray:
    own = (middle**2).sum(1)
    out = np.empty(len(curves), dtype=np.int64)
    for start in range(0, len(curves), 4096):
        part = curves[start : start + 4096]
        out[start : start + 4096] = (own - 2 * part @ middle.T).argmin(1)
    return out


def _strata(irt: Irt, count: int) -> tuple[np.ndarray, np.ndarray]:
    slope = np.maximum(irt.slope, 0.05)
    difficulty = np.clip(-irt.offset / slope, GRID[0], GRID[-1])
    order = np.argsort(difficulty, kind="stable")
    edges = np.searchsorted(np.cumsum(slope[order]), np.linspace(0, slope.sum(), count + 1)[1:-1])
    edges = np.concatenate([[0], edges, [len(order)]])
    for i in range(1, count):  # every stratum has an item
        edges[i] = min(max(edges[i], edges[i - 1] + 1), len(order) - (count - i))
    chosen, weight = [], []
    for low, high in itertools.pairwise(edges.tolist()):
        members = order[low:high]
        at = float(np.median(difficulty[members]))
        p = sigmoid(irt.slope[members] * at + irt.offset[members])
        chosen.append(int(members[(irt.slope[members] ** 2 * p * (1 - p)).argmax()]))
        weight.append(len(members))
    rank = np.argsort(chosen)
    return np.array(chosen)[rank], (np.array(weight) / len(order))[rank]
