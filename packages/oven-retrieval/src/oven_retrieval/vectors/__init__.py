"""Vectors to entities."""

from oven_retrieval.ranking import rerank
from oven_retrieval.vectors.exact import ArrayRows, exact_search
from oven_retrieval.vectors.index import VectorIndex, build_index, open_index, update_index
from oven_retrieval.vectors.store import VectorStore, build_vectors

__all__ = [
    "ArrayRows",
    "VectorIndex",
    "VectorStore",
    "build_index",
    "build_vectors",
    "exact_search",
    "open_index",
    "rerank",
    "update_index",
]
