"""Metrics as their definitions say, one number after another."""

from __future__ import annotations

import numpy as np


def auc(scores, truths):
    won = pairs = 0.0
    for s, y in zip(scores, truths, strict=True):
        for t, z in zip(scores, truths, strict=True):
            if y == 1 and z == 0:
                pairs += 1
                won += 1.0 if s > t else 0.5 if s == t else 0.0
    return won / pairs


def eleven_point(scores, truths):
    total = sum(truths)
    points = []
    for threshold in sorted(set(scores), reverse=True):
        hits = sum(y for s, y in zip(scores, truths, strict=True) if s >= threshold)
        named = sum(s >= threshold for s in scores)
        points.append((hits, hits / named))
    value = 0.0
    for tenth in range(11):
        value += max((p for hits, p in points if 10 * hits >= tenth * total), default=0.0)
    return value / 11


def mask_overlap(predicted, true, classes, form):
    values = []
    for c in range(classes):
        if form == "dice" and c == 0:
            continue
        both = p = t = 0
        for a, b in zip(predicted.ravel(), true.ravel(), strict=True):
            if b == -100:
                continue
            both += a == c and b == c
            p += a == c
            t += b == c
        if p + t:
            values.append(both / (p + t - both) if form == "iou" else 2 * both / (p + t))
    return sum(values) / len(values)


def bootstrap(outcome_metric, n, resamples, seed, level):
    """`outcome_metric(indices)` of each resample, and its percentiles."""
    generator = np.random.default_rng(seed)
    values = [outcome_metric(row) for row in generator.integers(0, n, (resamples, n))]
    return np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
