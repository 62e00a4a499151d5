"""Slow, obvious definitions in float64, which the tests compare everything with."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


class Corpus(NamedTuple):
    """Names as tokens, the entity of each, and which goes first among equal scores."""

    tokens: Sequence[Sequence[str]]
    owners: np.ndarray
    preference: np.ndarray

    @classmethod
    def of(cls, tokens: Sequence[Sequence[str]]) -> Corpus:
        """One name per entity."""
        rows = np.arange(len(tokens), dtype=np.int64)
        return cls(tokens, rows, rows)


def okapi_scores(
    names: Sequence[Sequence[str]], query: Sequence[str], k1: float = 1.2, b: float = 0.75, epsilon: float = 0.25
) -> list[float | None]:
    """BM25Okapi of each name for one query; None where the name shares no token with it."""
    n = len(names)
    document_frequency = Counter(token for name in names for token in set(name))
    mean_length = sum(len(name) for name in names) / n
    idf = {t: math.log(n - f + 0.5) - math.log(f + 0.5) for t, f in document_frequency.items()}
    mean_idf = sum(idf.values()) / len(idf)
    if mean_idf <= 0:  # where rank_bm25's scores would be 0 or below
        mean_idf = sum(math.log(1 + (n - f + 0.5) / (f + 0.5)) for f in document_frequency.values()) / len(idf)
    idf = {t: (epsilon * mean_idf if value <= 0 else value) for t, value in idf.items()}
    scores: list[float | None] = []
    for name in names:
        if not set(name) & set(query):
            scores.append(None)
            continue
        score = 0.0
        for token in query:
            tf = name.count(token)
            score += idf.get(token, 0.0) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(name) / mean_length))
        scores.append(score)
    return scores


def okapi_entities(
    names: Sequence[Sequence[str]],
    owners: Sequence[int],
    preference: Sequence[int],
    query: Sequence[str],
    k: int,
    tolerance: float = 1e-9,
) -> tuple[list[int], list[float]]:
    """The k best entities: by score (equal within the tolerance), then preference; each entity once."""
    scores = {i: score for i, score in enumerate(okapi_scores(names, query)) if score is not None}
    rest = list(scores)
    rows: list[int] = []
    best: list[float] = []
    while rest and len(rows) < k:
        top = max(scores[i] for i in rest)
        winner = min((i for i in rest if scores[i] >= top - tolerance), key=preference.__getitem__)
        rows.append(owners[winner])
        best.append(scores[winner])
        rest = [i for i in rest if owners[i] != owners[winner]]
    return rows, best


def clip2clip_score(
    image: Sequence[float],
    text: Sequence[float],
    entity_image: Sequence[float],
    entity_text: Sequence[float],
    weights: Sequence[float],
) -> float:
    """CLIP2CLIP's four weighted cosine similarities of one question and one entity."""

    def cosine(x: Sequence[float], y: Sequence[float]) -> float:
        dot = sum(float(a) * float(b) for a, b in zip(x, y, strict=True))
        return dot / math.sqrt(sum(float(a) ** 2 for a in x)) / math.sqrt(sum(float(b) ** 2 for b in y))

    a, b, c, d = weights
    return (
        a * cosine(image, entity_text)
        + b * cosine(text, entity_image)
        + c * cosine(image, entity_image)
        + d * cosine(text, entity_text)
    )
