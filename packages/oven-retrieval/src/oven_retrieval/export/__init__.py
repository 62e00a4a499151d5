"""Entities and their vectors to a vector database; extras `qdrant` and `milvus`."""

from __future__ import annotations

from oven_retrieval.export.run import TARGETS, Exported, check_export, export_kb, open_collection
from oven_retrieval.export.target import Collection, ExportError, Record

__all__ = ["TARGETS", "Collection", "ExportError", "Exported", "Record", "check_export", "export_kb", "open_collection"]
