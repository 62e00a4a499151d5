"""Slow, obvious definitions in float64, and a small text encoder that reads its feature at the end token, as CLIP's."""

from __future__ import annotations

import numpy as np

START, END, CONTEXT = 998, 999, 14


def class_embedding(text_features: list[list[float]]) -> list[float]:
    """normalise(mean of normalised rows), in plain Python."""

    def unit(row):
        length = sum(value * value for value in row) ** 0.5
        return [value / length for value in row]

    rows = [unit(row) for row in text_features]
    return unit([sum(column) / len(rows) for column in zip(*rows, strict=True)])


class WordTokenizer:
    """One token per word; whole ids with start and end."""

    context_length = CONTEXT

    def __call__(self, texts):
        return [[START, *(1 + sum(map(ord, word)) % 900 for word in text.split()), END] for text in texts]


class CausalEncoder:
    """Token ids [n, l] to features [n, d]: a weighted sum of what stands up to the largest id, the end token."""

    def __init__(self, features: int = 16) -> None:
        generator = np.random.default_rng(0)
        self.table = generator.normal(size=(1000, features))
        self.position = generator.normal(size=(CONTEXT, features))
        self.widths: list[int] = []
        self.rows = 0

    def __call__(self, ids):
        assert ids.dtype == np.int64
        assert ids.shape[1] <= CONTEXT
        self.widths.append(ids.shape[1])
        self.rows += len(ids)
        features = np.zeros((len(ids), self.table.shape[1]))
        for i, row in enumerate(ids):
            end = int(np.argmax(row))
            for at in range(end + 1):
                features[i] += self.table[row[at]] * np.tanh(self.position[at]) / (1 + end - at)
        return features


class FixedWidthEncoder(CausalEncoder):
    """The same, which takes rows of the whole context only."""

    def __call__(self, ids):
        if ids.shape[1] != CONTEXT:
            raise RuntimeError(f"size {ids.shape[1]} must match {CONTEXT}")
        return super().__call__(ids)


class AveragingEncoder(CausalEncoder):
    """The mean over all positions, padding included: what comes after the end changes the result."""

    def __call__(self, ids):
        self.widths.append(ids.shape[1])
        return self.table[ids].mean(axis=1)
