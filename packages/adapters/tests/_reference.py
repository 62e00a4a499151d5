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


def adamw_step(value, gradient, mean, square, step, lr, betas, eps, decay):
    """One decoupled Adam step on a number; returns the new value and the two moments."""
    mean = betas[0] * mean + (1 - betas[0]) * gradient
    square = betas[1] * square + (1 - betas[1]) * gradient**2
    corrected = mean / (1 - betas[0] ** step)
    root = math.sqrt(square / (1 - betas[1] ** step))
    return value * (1 - lr * decay) - lr * corrected / (root + eps), mean, square


def unit_rows(rows):
    return [[value / math.sqrt(sum(v * v for v in row)) for value in row] for row in rows]


def dot(a, b):
    return sum(p * q for p, q in zip(a, b, strict=True))


def gaussian_discriminant(x, labels, k):
    """Weights [k, d] and biases [k] of equal priors and the shrunk shared covariance."""
    n, d = len(x), len(x[0])
    means = [[sum(x[i][j] for i in range(n) if labels[i] == c) / labels.count(c) for j in range(d)] for c in range(k)]
    covariance = np.zeros((d, d))
    for i in range(n):
        for a in range(d):
            for b in range(d):
                covariance[a, b] += (x[i][a] - means[labels[i]][a]) * (x[i][b] - means[labels[i]][b]) / (n - 1)
    shrunk = (n - 1) * covariance + sum(covariance[a, a] for a in range(d)) * np.eye(d)
    precision = d * np.linalg.inv(shrunk)
    weights = [precision @ np.array(mean) for mean in means]
    return np.array(weights), np.array([-0.5 * dot(w, m) for w, m in zip(weights, means, strict=True)])


def tip_scores(query, keys, labels, texts, scale, alpha, beta):
    """Zero-shot plus the cache, rows of length 1 throughout; `labels` are lists of classes."""
    out = np.zeros((len(query), len(texts)))
    for i, q in enumerate(query):
        for c, v in enumerate(texts):
            cache = sum(math.exp(-beta * (1 - dot(q, key))) for key, own in zip(keys, labels, strict=True) if c in own)
            out[i, c] = scale * dot(q, v) + alpha * cache
    return out


def clap_trust(x, labels, texts, scale):
    """Each class's mean zero-shot probability on its own images."""
    means = []
    for c in range(len(texts)):
        own = [softmax([scale * dot(row, v) for v in texts])[c] for i, row in enumerate(x) if labels[i] == c]
        means.append(sum(own) / len(own))
    return means


def clap_objective(weights, x, labels, texts, scale, trust):
    """Cross-entropy of scaled cosines, and each class's distance from its text times its trust."""
    loss = 0.0
    for i, row in enumerate(x):
        scores = [scale * dot(row, w) / math.sqrt(dot(w, w)) for w in weights]
        loss -= math.log(softmax(scores)[labels[i]]) / len(x)
    for c, hold in enumerate(trust):
        loss += hold * sum((a - b) ** 2 for a, b in zip(weights[c], texts[c], strict=True))
    return loss


def clap_weights(x, labels, texts, scale, trust, steps):
    """Steps of momentum 0.9 at a rate that falls from 0.1 along a cosine, gradients by central differences."""
    w, velocity = np.array(texts), np.zeros((len(texts), len(texts[0])))
    for number in range(steps):
        gradient = np.zeros_like(w)
        for index in np.ndindex(*w.shape):
            step = np.zeros_like(w)
            step[index] = 1e-6
            up, down = (clap_objective(w + sign * step, x, labels, texts, scale, trust) for sign in (1, -1))
            gradient[index] = (up - down) / 2e-6
        velocity = 0.9 * velocity + gradient
        w = w - 0.1 * (1 + math.cos(math.pi * number / steps)) / 2 * velocity
    return w


def lpp_weights(x, labels, texts, steps):
    """LP++: sums of features, 250 times the mean own cosine, momentum on w, alpha moved in every tenth step."""
    n, d, k = len(x), len(x[0]), len(texts)
    w = np.zeros((k, d))
    for i in range(n):
        w[labels[i]] += x[i]
    own = [sum(dot(x[i], texts[c]) for i in range(n) if labels[i] == c) / labels.count(c) for c in range(k)]
    alpha = np.full(k, 250 * sum(own) / k)
    second = sum(np.outer(row, row) for row in np.array(x))
    rate_w = 4 * n / np.linalg.eigvalsh(second)[-1]
    rate_alpha = n / (4 * max(sum(dot(x[i], v) ** 2 for i in range(n)) for v in texts))
    velocity = np.zeros((k, d))
    for step in range(1, steps + 1):
        into_w, into_alpha = np.zeros((k, d)), np.zeros(k)
        for i in range(n):
            p = softmax([dot(x[i], w[c]) + alpha[c] * dot(x[i], texts[c]) for c in range(k)])
            for c in range(k):
                into_w[c] += (p[c] - (labels[i] == c)) * np.array(x[i]) / n
                into_alpha[c] += (p[c] - (labels[i] == c)) * dot(x[i], texts[c]) / n
        velocity = 0.9 * velocity + into_w
        w = w - rate_w * velocity
        if step % 10 == 0:
            alpha = alpha - rate_alpha * into_alpha
    return w + alpha[:, None] * np.array(texts)


def ss_text_weights(x, labels, texts, scale, plus):
    """Texts plus scaled sums of their images; in SS-Text+ by each class's share, and pushed from the mean."""
    n, weights = len(x), []
    for c, text in enumerate(texts):
        w = np.array(text, dtype=np.float64)
        for i in range(n):
            if labels[i] == c:
                w = w + scale * np.array(x[i]) * (labels.count(c) / n if plus else 1.0)
        weights.append(w)
    if not plus:
        return np.array(weights)
    mean = sum(weights) / len(weights)
    pushes = [2 * w - mean for w in weights]
    return np.array([w - push / math.sqrt(dot(push, push)) for w, push in zip(weights, pushes, strict=True)])


def proker_scores(query, x, labels, texts, beta, penalty):
    """Cosines plus the kernel regression of 0/1 labels less cosines."""
    n, k = len(x), len(texts)
    gram = np.array([[math.exp(-beta * (1 - dot(x[i], x[j]))) for j in range(n)] for i in range(n)])
    left = np.array([[(labels[i] == c) - dot(x[i], texts[c]) for c in range(k)] for i in range(n)])
    weights = np.linalg.inv(gram / penalty + np.eye(n)) @ left
    out = np.zeros((len(query), k))
    for i, q in enumerate(query):
        for c in range(k):
            near = sum(math.exp(-beta * (1 - dot(q, x[j]))) * weights[j, c] for j in range(n))
            out[i, c] = dot(q, texts[c]) + near
    return out


def cross_modal_objective(weights, x, labels, texts, scale):
    """Half the mean cross-entropy of the images, half that of the texts as samples of their classes."""
    loss = 0.0
    for rows, own in ((x, labels), (texts, list(range(len(texts))))):
        for row, y in zip(rows, own, strict=True):
            loss -= math.log(softmax([scale * dot(row, w) for w in weights])[y]) / len(rows) / 2
    return loss


def cross_modal_weights(x, labels, texts, scale, steps):
    """AdamW by hand at a rate of 0.001 with decay 0.01, gradients by central differences."""
    w = np.array(texts, dtype=np.float64)
    first, second = np.zeros_like(w), np.zeros_like(w)
    for number in range(1, steps + 1):
        gradient = np.zeros_like(w)
        for index in np.ndindex(*w.shape):
            step = np.zeros_like(w)
            step[index] = 1e-5
            up, down = (cross_modal_objective(w + s * step, x, labels, texts, scale) for s in (1, -1))
            gradient[index] = (up - down) / 2e-5
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        w = w - 0.001 * 0.01 * w
        w = w - 0.001 * (first / (1 - 0.9**number)) / (np.sqrt(second / (1 - 0.999**number)) + 1e-8)
    return w


def clap_weights_quick(x, labels, texts, scale, trust, steps):
    """`clap_weights` with its gradient written out, in float64 loops over images and classes."""
    w, velocity = np.array(texts, dtype=np.float64), np.zeros((len(texts), len(texts[0])))
    for number in range(steps):
        gradient = np.zeros_like(w)
        for i, row in enumerate(x):
            lengths = [math.sqrt(dot(v, v)) for v in w]
            p = softmax([scale * dot(row, v) / length for v, length in zip(w, lengths, strict=True)])
            for c, length in enumerate(lengths):
                direction = w[c] / length
                along = (np.array(row) - dot(row, direction) * direction) / length
                gradient[c] += scale * (p[c] - (labels[i] == c)) * along / len(x)
        for c, hold in enumerate(trust):
            gradient[c] += 2 * hold * (w[c] - np.array(texts[c]))
        velocity = 0.9 * velocity + gradient
        w = w - 0.1 * (1 + math.cos(math.pi * number / steps)) / 2 * velocity
    return w
