"""Models that retrieve entities for an image and a question."""

from __future__ import annotations

from .clip2clip import ZERO_SHOT, Clip2Clip, GridSearch, Weights, concatenated, grid_search, normalise, query_vectors

__all__ = [
    "ZERO_SHOT",
    "Clip2Clip",
    "GridSearch",
    "Weights",
    "concatenated",
    "grid_search",
    "normalise",
    "query_vectors",
]
