"""Clusters of features without labels, and how far they agree with classes."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Int

from paired_scores.metrics.arrays import as_array, class_labels
from paired_scores.metrics.score import Score, wilson

Table = npt.NDArray[np.int64]

_ROUNDING = 1e-9
_BATCHED_FROM = 50_000
"""Samples from which k-means goes through them in batches."""


def cluster(features: npt.ArrayLike, k: int, *, seed: int = 0) -> Int[np.ndarray, " n"]:
    """Clusters by k-means++, the best of five starts; in batches from 50,000 samples on."""
    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning

    rows = as_array(features, "features").astype(np.float32)
    if not 1 <= k <= len(rows):
        raise ValueError(f"{len(rows)} samples do not make {k} clusters")
    kind = MiniBatchKMeans if len(rows) >= _BATCHED_FROM else KMeans
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different samples than clusters: some stay empty
        numbers: Int[np.ndarray, " n"] = kind(k, n_init=5, random_state=seed).fit_predict(rows)
    return numbers


def matched_clusters(clusters: npt.ArrayLike, classes: npt.ArrayLike) -> Int[np.ndarray, " n"]:
    """Clusters numbered as the classes that they match one to one, so that most samples are right (Kuhn, 1955).

    Clusters of two encoders have then numbers in common, as a paired test needs that exchanges samples between them. A
    cluster without a class has a number above all classes.
    """
    from scipy.optimize import linear_sum_assignment

    guessed, true = _pairs(clusters, classes)
    table = np.zeros((int(guessed.max()) + 1, int(true.max()) + 1), np.int64)
    np.add.at(table, (guessed, true), 1)
    rows, columns = linear_sum_assignment(table, maximize=True)
    numbers = np.arange(len(table)) + table.shape[1]
    numbers[rows] = columns
    return np.asarray(numbers[guessed])


def agreement(
    name: str,
    clusters: npt.ArrayLike,
    classes: npt.ArrayLike,
    *,
    seed: int = 0,
    resamples: int = 400,
    level: float = 0.95,
) -> Score:
    r"""How far clusters agree with classes, with an interval.

    ``ami``, the adjusted mutual information $(I - E[I]) / (\bar{H} - E[I])$, is 0 on average for clusters that know
    nothing; ``v_measure``, $2 I / (H_c + H_k)$, is not: it rises with the number of clusters.

    Samples that a bootstrap repeats would look like agreement. So each resample is half of the samples, drawn
    without replacement, whose spread about its mean is the whole's; that mean is moved to the value.

    Source: Vinh, Epps and Bailey, 2010 (AMI); Rosenberg and Hirschberg, 2007 (V-measure); Politis and Romano, 1994
    (subsampling).
    """
    if name not in AGREEMENTS:
        raise ValueError(f"{name!r} is no measure of clusters, expected one of {', '.join(AGREEMENTS)}")
    outcomes = np.stack(_pairs(clusters, classes), axis=1).astype(np.float64)
    even = np.ones((1, len(outcomes)))
    value = float(AGREEMENTS[name](outcomes, even)[0])
    low = high = value
    if resamples:
        generator = np.random.default_rng(seed)
        drawn = np.zeros((resamples, len(outcomes)))
        for row in drawn:
            row[generator.permutation(len(row))[: max(1, len(row) // 2)]] = 1
        values = AGREEMENTS[name](outcomes, drawn)
        moved = np.quantile(values, [(1 - level) / 2, (1 + level) / 2]) - values.mean() + value
        low, high = (float(end) for end in np.clip(moved, None, 1.0))
    if resamples and value > 1 - _ROUNDING:
        low = min(low, wilson(1.0, len(outcomes), level)[0])
    return Score(name, "higher", value, min(low, value), max(high, value), outcomes)


def _pairs(clusters: npt.ArrayLike, classes: npt.ArrayLike) -> tuple[Table, Table]:
    numbers, true = as_array(clusters, "clusters"), as_array(classes, "classes")
    if numbers.shape != true.shape or numbers.ndim != 1 or not len(numbers):
        raise ValueError(f"clusters have shape {numbers.shape}, classes {true.shape}; expected the same [n], n >= 1")
    return class_labels(numbers, None), class_labels(true, None)


def _of_tables(measure: Callable[[Table], float]) -> Callable[[Any, Any], npt.NDArray[np.float64]]:
    """A measure of tables as a function of `Score.outcomes` and weights [r, n], such as counts of a bootstrap."""

    def statistic(outcomes: Any, weights: Any) -> npt.NDArray[np.float64]:
        clusters, classes = (np.unique(column, return_inverse=True)[1] for column in outcomes.T)
        shape = int(classes.max()) + 1, int(clusters.max()) + 1
        cells = classes * shape[1] + clusters
        values = []
        for row in weights:
            table = np.bincount(cells[_once(row)], minlength=shape[0] * shape[1]).reshape(shape).astype(np.int64)
            values.append(measure(table[table.any(1)][:, table.any(0)]))
        return np.array(values)

    return statistic


def _once(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The samples of a resample: of one with repetitions, as many as half of all, each once; see `agreement`.

    Which they are depends on the weights alone, so that two models lose the same.
    """
    drawn = np.flatnonzero(weights > 0)
    if not (weights > 1).any():
        return drawn
    half = min(len(drawn), int(weights.sum()) // 2)
    generator = np.random.default_rng(zlib.crc32(weights[drawn].tobytes()))
    return np.sort(generator.permutation(drawn)[:half])


def _informations(table: Table) -> tuple[float, float, float]:
    """Mutual information of rows and columns, and the entropy of each, in nats."""
    share = table / table.sum()
    rows, columns = share.sum(1), share.sum(0)
    inside = share > 0
    mutual = float((share[inside] * np.log(share[inside] / np.outer(rows, columns)[inside])).sum())
    return mutual, float(-(rows * np.log(rows)).sum()), float(-(columns * np.log(columns)).sum())


def _v(table: Table) -> float:
    mutual, classes, clusters = _informations(table)
    return 2 * mutual / (classes + clusters) if classes + clusters > 0 else 1.0


def _ami(table: Table) -> float:
    if table.shape == (1, 1):
        return 1.0
    from sklearn.metrics.cluster import expected_mutual_information

    mutual, classes, clusters = _informations(table)
    expected = float(expected_mutual_information(table, int(table.sum())))
    return _off_zero(mutual - expected) / _off_zero((classes + clusters) / 2 - expected)


def _off_zero(value: float) -> float:
    """At least a rounding away from 0, as scikit-learn has it: of single samples, both sides agree."""
    least = float(np.finfo(np.float64).eps)
    return min(value, -least) if value < 0 else max(value, least)


adjusted_mutual_information = _of_tables(_ami)
v_measure = _of_tables(_v)
AGREEMENTS = {"ami": adjusted_mutual_information, "v_measure": v_measure}
"""Measures by name: functions of `Score.outcomes` and weights [r, n] to values [r]."""
