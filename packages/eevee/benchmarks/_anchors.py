"""tinyBenchmarks' anchors (Polo et al., 2024), beside which the drawn items stand: items by k-means of their curves."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.cluster import vq

GRID = np.linspace(-2.5, 2.5, 21)
TURNS = 15


def choose_anchors(irt, count, generator):
    """Of each cluster of curves the item nearest to its middle, weighted by the cluster's size.

    Where equal curves leave clusters empty, crowded ones give several items.
    """
    curves = irt.probability(GRID).T
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
