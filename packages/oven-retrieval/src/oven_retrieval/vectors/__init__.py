"""Vectors to entities."""

from __future__ import annotations

from oven_retrieval.ranking import former_names
from oven_retrieval.vectors.exact import ArrayRows, Rows, exact_search, merge, recall_at
from oven_retrieval.vectors.index import IndexReport, VectorIndex, build_index, open_index, update_index
from oven_retrieval.vectors.plan import IndexPlan, plan_index
from oven_retrieval.vectors.rerank import rerank
from oven_retrieval.vectors.store import VectorStore, build_vectors

__all__ = [
    "ArrayRows",
    "IndexPlan",
    "IndexReport",
    "Rows",
    "VectorIndex",
    "VectorStore",
    "build_index",
    "build_vectors",
    "exact_search",
    "merge",
    "open_index",
    "plan_index",
    "recall_at",
    "rerank",
    "update_index",
]

__getattr__ = former_names(__name__, "Neighbours")
