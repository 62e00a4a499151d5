"""Entities that look or read alike, by the vectors of a project."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from oven_retrieval.vectors import Rows

if TYPE_CHECKING:
    from jaxtyping import Int64


def near_by_vectors(
    vectors: Rows, live: Int64[np.ndarray, " r"], *, share: float = 0.01, pairs: int = 10_000, seed: int = 0
) -> Callable[[int, int], bool]:
    """A `near` for `error_kinds`: two entities whose cosine is among the greatest of random pairs.

    Args:
        vectors: of the entities, row by row as in the knowledge base; of names, or of pictures.
        live: rows that hold an entity.
        share: of random pairs of different entities that shall count as near, above 0 and below 1.
        pairs: random pairs that the threshold is taken from.
        seed: of the draw.

    Raises:
        ValueError: a share out of its range, or fewer than two entities.

    Example:
        >>> from oven_retrieval.vectors import ArrayRows
        >>> angles = np.linspace(0, 3, 60)
        >>> near = near_by_vectors(ArrayRows(np.stack([np.cos(angles), np.sin(angles)], 1)), np.arange(60), share=0.1)
        >>> near(10, 11), near(10, 40)
        (True, False)
    """
    if not 0 < share < 1:
        raise ValueError(f"share: expected above 0 and below 1, got {share!r}")
    if len(live) < 2:
        raise ValueError(f"live: expected at least two entities, got {len(live)}")
    rng = np.random.default_rng(seed)
    first = rng.integers(0, len(live), pairs)
    second = (first + rng.integers(1, len(live), pairs)) % len(live)

    def cosine(a: int, b: int) -> float:
        vector_a, vector_b = (vectors.rows(row, row + 1)[0].astype(np.float64) for row in (a, b))
        length = float(np.linalg.norm(vector_a) * np.linalg.norm(vector_b))
        return float(vector_a @ vector_b) / length if length else 0.0

    drawn = [cosine(int(live[a]), int(live[b])) for a, b in zip(first, second, strict=True)]
    threshold = float(np.quantile(drawn, 1 - share))
    return lambda row, right: cosine(row, right) >= threshold
