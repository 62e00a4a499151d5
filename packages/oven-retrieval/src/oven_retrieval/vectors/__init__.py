"""Vectors to entities."""

from __future__ import annotations

from .exact import ArrayRows, Neighbours, Rows, exact_search, merge, recall_at
from .index import IndexReport, VectorIndex, build_index, open_index
from .plan import IndexPlan, plan_index
from .store import VectorStore, build_vectors
from .update import update_index

__all__ = [
    "ArrayRows",
    "IndexPlan",
    "IndexReport",
    "Neighbours",
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
    "update_index",
]
