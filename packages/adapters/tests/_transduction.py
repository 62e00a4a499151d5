"""StatA, TransCLIP and SS-Text-U by plain loops in float64."""

from __future__ import annotations

import math

import numpy as np

from ._reference import dot, softmax


def log_density(x, mean, variance):
    return -0.5 * sum((a - b) ** 2 / v + math.log(v) for a, b, v in zip(x, mean, variance, strict=True))


def neighbours(x, count):
    lists = []
    for i in range(len(x)):
        order = sorted((j for j in range(len(x)) if j != i), key=lambda j, i=i: -dot(x[i], x[j]))
        lists.append([(j, max(0.0, dot(x[i], x[j]))) for j in order[:count]])
    return lists


def steps_of_assignment(z, prior, fit, near, labels):
    k = len(prior[0])
    for _ in range(5):
        new = []
        for i in range(len(z)):
            pull = [sum(w * z[j][c] for j, w in near[i]) for c in range(k)]
            new.append(softmax([math.log(prior[i][c]) + fit[i][c] + pull[c] for c in range(k)]))
        z = [[float(c == labels[i]) for c in range(k)] if i < len(labels) else new[i] for i in range(len(z))]
    return z


def mixture(x, texts, scale, labels, rounds, *, anchored):
    """Assignments, means and variances of StatA (anchored) or TransCLIP."""
    n, d, k = len(x), len(x[0]), len(texts)
    prior = [softmax([scale * dot(row, v) for v in texts]) for row in x]
    z = [[float(c == labels[i]) for c in range(k)] if i < len(labels) else prior[i] for i in range(n)]
    near = neighbours(x, min(3, n - 1))
    if anchored:
        around = [
            sum(prior[i][c] * (x[i][j] - texts[c][j]) ** 2 for i in range(n) for c in range(k)) / n for j in range(d)
        ]
        means, variances = [list(v) for v in texts], [list(around) for _ in texts]
    else:
        means = []
        for c in range(k):
            sure = sorted(range(n), key=lambda i, c=c: -z[i][c])[:8]
            means.append([sum(x[i][j] for i in sure) / len(sure) for j in range(d)])
        variances = [[1 / d] * d for _ in texts]
    for _ in range(rounds):
        fit = [[log_density(row, means[c], variances[c]) for c in range(k)] for row in x]
        z = steps_of_assignment(z, prior, fit, near, labels)
        count = [sum(z[i][c] for i in range(n)) for c in range(k)]
        held = 1.0 if anchored else 0.0
        means = [
            [(sum(z[i][c] * x[i][j] for i in range(n)) + held * texts[c][j]) / (count[c] + held) for j in range(d)]
            for c in range(k)
        ]
        scatter = [[sum(z[i][c] * (x[i][j] - means[c][j]) ** 2 for i in range(n)) for j in range(d)] for c in range(k)]
        if anchored:
            variances = [
                [(scatter[c][j] + around[j] + (texts[c][j] - means[c][j]) ** 2) / (count[c] + 1) for j in range(d)]
                for c in range(k)
            ]
        else:
            common = [sum(scatter[c][j] for c in range(k)) / n for j in range(d)]
            variances = [common for _ in texts]
    return np.array(z), np.array(means), np.array(variances)


def transport(scores, marginal, rounds):
    q = np.exp(np.array(scores, dtype=np.float64))
    n = len(q)
    q = q / q.sum()
    for _ in range(rounds):
        for c in range(q.shape[1]):
            q[:, c] *= marginal[c] / sum(q[i, c] for i in range(n))
        for i in range(n):
            q[i] *= (1 / n) / sum(q[i])
    return q * n


def ss_text_u(x, texts, scale, known, labels):
    n, k = len(x), len(texts)
    share = [labels.count(c) / len(labels) for c in range(k)]
    share = [s if s > 0 else min(v for v in share if v > 0) / 4 for s in share]
    share = [s / sum(share) for s in share]
    w = [np.array(v, dtype=np.float64) for v in texts]
    for _ in range(3):
        unit = [v / math.sqrt(dot(v, v)) for v in w]
        codes = transport([[scale * dot(row, v) for v in unit] for row in x], share, 10)
        w = [
            np.array(texts[c])
            + scale * labels.count(c) / (2 * len(labels)) * sum((np.array(r) for r, y in zip(known, labels, strict=True)
                                                                 if y == c), np.zeros(len(texts[0])))
            + scale / n * sum(codes[i, c] * np.array(x[i]) for i in range(n))
            for c in range(k)
        ]  # fmt: skip
    return np.array(w)
