"""Slow, obvious definitions that the comparison is tested against."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

Measure = Callable[[np.ndarray], float]


def exact_permutation_p(measure: Measure, first: np.ndarray, second: np.ndarray) -> float:
    """Every way of exchanging the two models' outcomes, one after another."""
    observed = abs(measure(second) - measure(first))
    reached = total = 0
    for swap in itertools.product([False, True], repeat=len(first)):
        a = np.stack([second[i] if exchange else first[i] for i, exchange in enumerate(swap)])
        b = np.stack([first[i] if exchange else second[i] for i, exchange in enumerate(swap)])
        reached += abs(measure(b) - measure(a)) >= observed - 1e-12
        total += 1
    return reached / total


def mean_iou(outcomes: np.ndarray) -> float:
    """From counts [n, 3, k] of pixels in both, predicted and true: sums over images, then the mean over classes."""
    values = []
    for index in range(outcomes.shape[2]):
        both, predicted, true = (sum(image[kind][index] for image in outcomes) for kind in range(3))
        if predicted + true > 0:
            values.append(both / (predicted + true - both))
    return float(np.mean(values))


def area_under_curve(outcomes: np.ndarray) -> float:
    """From [n, 2, 1] of scores and truths: the share of pairs in the right order, ties being half."""
    pairs = [
        1.0 if high[0] > low[0] else 0.5 if high[0] == low[0] else 0.0
        for high in outcomes[..., 0]
        for low in outcomes[..., 0]
        if high[1] == 1 and low[1] == 0
    ]
    return float(np.mean(pairs)) if pairs else float("nan")
