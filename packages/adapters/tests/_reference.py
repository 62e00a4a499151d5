"""Slow, obvious definitions in float64 and plain loops."""

from __future__ import annotations

import math

import numpy as np


def softmax(row):
    high = max(row)
    exps = [math.exp(z - high) for z in row]
    return [e / sum(exps) for e in exps]


def cross_entropy(logits, targets, gamma=0.0):
    """Rows of scores; targets of -100 do not count."""
    values = []
    for row, y in zip(logits, targets, strict=True):
        if y == -100:
            continue
        p = softmax(row)[y]
        values.append(-((1 - p) ** gamma) * math.log(p))
    return sum(values) / len(values) if values else 0.0


def soft_dice(logits, targets, background=None, smooth=1.0):
    k = len(logits[0])
    dices = []
    for c in range(k):
        if c == background:
            continue
        both = predicted = true = 0.0
        for row, y in zip(logits, targets, strict=True):
            if y == -100:
                continue
            p = softmax(row)[c]
            both += p * (y == c)
            predicted += p
            true += y == c
        dices.append((2 * both + smooth) / (predicted + true + smooth))
    return 1 - sum(dices) / len(dices)


def symmetric_cross_entropy(logits, groups):
    n = len(logits)
    total = 0.0
    for matrix in (logits, [list(column) for column in zip(*logits, strict=True)]):
        for i in range(n):
            positives = [j for j in range(n) if groups[j] == groups[i]]
            p = softmax(matrix[i])
            total += sum(-math.log(p[j]) / len(positives) for j in positives) / n
    return total / 2


def prototypes(support, labels, query, ways):
    out = np.zeros((len(query), ways))
    for c in range(ways):
        members = [x for x, y in zip(support, labels, strict=True) if y == c]
        centre = sum(members) / len(members)
        for i, q in enumerate(query):
            out[i, c] = -sum((a - b) ** 2 for a, b in zip(q, centre, strict=True))
    return out


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


def adamw_step(value, gradient, mean, square, step, lr, betas, eps, decay):
    """One decoupled Adam step on a number; returns the new value and the two moments."""
    mean = betas[0] * mean + (1 - betas[0]) * gradient
    square = betas[1] * square + (1 - betas[1]) * gradient**2
    corrected = mean / (1 - betas[0] ** step)
    root = math.sqrt(square / (1 - betas[1] ** step))
    return value * (1 - lr * decay) - lr * corrected / (root + eps), mean, square
