"""Patch features by loops in float64: the definition that `vision_features.encoders.surgery` is compared with."""

from __future__ import annotations

from math import exp, sqrt
from typing import Any

import numpy as np


def softmax(scores: list[float]) -> list[float]:
    """Exponentials over their sum; minus infinity gives 0."""
    top = max(scores)
    powers = [exp(score - top) for score in scores]
    return [power / sum(powers) for power in powers]


def attention(scores: list[list[float]], values: np.ndarray) -> np.ndarray:
    """Each row of scores as weights of values."""
    rows = []
    for row in scores:
        total = np.zeros(values.shape[1])
        for weight, value in zip(softmax(row), values, strict=True):
            total += weight * value
        rows.append(total)
    return np.array(rows)


def dots(left: np.ndarray, right: np.ndarray) -> list[list[float]]:
    """Dot products over the root of the width."""
    return [[float(a @ b) / sqrt(len(a)) for b in right] for a in left]


def near(grid: tuple[int, int], prefix: int, deviation: float) -> np.ndarray:
    """NACLIP's window, written out."""
    places = [(row, column) for row in range(grid[0]) for column in range(grid[1])]
    window = np.zeros((prefix + len(places), prefix + len(places)))
    for i, (row, column) in enumerate(places):
        for j, (other_row, other_column) in enumerate(places):
            squared = (row - other_row) ** 2 + (column - other_column) ** 2
            window[prefix + i, prefix + j] = exp(-squared / (2 * deviation**2))
    return window


def proxy(features: np.ndarray, beta: float, gamma: float) -> list[list[float]]:
    """ProxyCLIP's scores of one image's patches."""
    unit = [row / np.linalg.norm(row) for row in features]
    cosines = [[float(a @ b) for b in unit] for a in unit]
    mean = sum(map(sum, cosines)) / len(unit) ** 2
    scores = [[gamma * (cosine - beta * mean) for cosine in row] for row in cosines]
    return [[score if score >= 0 else float("-inf") for score in row] for row in scores]


def gathered(
    name: str, q: np.ndarray, k: np.ndarray, v: np.ndarray, grid: tuple[int, int], prefix: int, other: Any = None
) -> np.ndarray:
    """What the tokens of one image gather in one head ``[t, d]``, by a variant's name."""
    if name in ("maskclip", "value"):
        return v
    if name == "class-token":
        return attention(dots(q, k), v)
    if name == "sclip":
        return attention(dots(q, q), v) + attention(dots(k, k), v)
    if name == "clearclip":
        return attention(dots(q, q), v)
    if name == "naclip":
        return attention((np.array(dots(k, k)) + near(grid, prefix, 5.0)).tolist(), v)
    assert name == "proxyclip"
    return attention(proxy(other, 1.2, 3.0), v[prefix:])
