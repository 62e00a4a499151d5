"""Areas and precisions of ranked scores, for many weightings of the samples at once.

A bootstrap resample is a row of whole-number weights; each function takes all resamples together, so that the scores
are sorted once. Samples with equal scores form one group: within it no order is credited.
"""

from __future__ import annotations

import numpy as np

from paired_scores.metrics.arrays import Floats, ratio

RECALLS = np.linspace(0.0, 1.0, 11)


def _cumulated(scores: Floats, truths: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Weight of positives, and of all, at or above each distinct score, from the highest down: two [r, g]."""
    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
    sorted_weights = weights[:, order]
    everything = np.cumsum(sorted_weights, axis=1)[:, ends]
    sorted_weights *= truths[order]
    return np.cumsum(sorted_weights, axis=1)[:, ends], everything


def weighted_auc(scores: Floats, truths: Floats, weights: Floats) -> Floats:
    r"""Area under the ROC curve: the weighted share of (positive, negative) pairs in the right order, ties half."""
    positive, everything = _cumulated(scores, truths, weights)
    negative = everything - positive
    gained = np.diff(positive, axis=1, prepend=0.0)
    below = negative[:, -1:] - negative + np.diff(negative, axis=1, prepend=0.0) / 2
    pairs = positive[:, -1] * negative[:, -1]
    return ratio((gained * below).sum(1), pairs)


def weighted_average_precision(scores: Floats, truths: Floats, weights: Floats) -> Floats:
    r"""Average precision $\sum_g (R_g - R_{g-1}) P_g$ over the distinct scores g, without interpolation."""
    positive, everything = _cumulated(scores, truths, weights)
    gained = np.diff(positive, axis=1, prepend=0.0)
    total = positive[:, -1]
    area = (gained * ratio(positive, everything, 0.0)).sum(1)
    return ratio(area, total)


def _best_precisions(scores: Floats, truths: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Weight of positives at or above each distinct score, that of all, and the best precision there or below."""
    positive, everything = _cumulated(scores, truths, weights)
    precision = ratio(positive, everything, 0.0)
    best: Floats = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    return positive, positive[:, -1:], best


def weighted_elevater_11point(scores: Floats, truths: Floats, weights: Floats) -> Floats:
    """ELEVATER's 11-point average precision: VOC 2007's with a point of precision 1 at recall 0 added to the curve.

    So the level at recall 0 is always 1: up to 1/11 more for a label whose best-ranked samples are wrong.

    Source: vision-evaluation 0.2.14, which its toolkit scores VOC 2007 with, on scikit-learn's curve. Its recalls are
    those of `linspace(1, 0, 11)`, compared without slack, as here: one of .3 is above 3 / 10.
    """
    positive, total, best = _best_precisions(scores, truths, weights)
    recall = ratio(positive, np.broadcast_to(total, positive.shape), 0.0)
    value = np.ones(len(weights))  # at recall 0
    for level in np.linspace(1, 0, 11)[:-1]:
        reached = (recall < level).sum(1)
        value += best[np.arange(len(best)), np.minimum(reached, best.shape[1] - 1)]
    return np.where(total[:, 0] > 0, value / 11, np.nan)


def weighted_11point(scores: Floats, truths: Floats, weights: Floats) -> Floats:
    """VOC 2007's (Everingham, 2010, 4.2): the mean over recalls 0, .1, …, 1 of the best precision there or above."""
    positive, total, best = _best_precisions(scores, truths, weights)
    value = np.zeros(len(weights))
    for recall in RECALLS:
        # the first place where the recall is reached; one ulp of slack, for .1 x 30 positives is 3 positives
        reached = (positive < recall * total * (1 - 1e-12)).sum(1)
        value += best[np.arange(len(best)), np.minimum(reached, best.shape[1] - 1)]
    return np.where(total[:, 0] > 0, value / len(RECALLS), np.nan)
