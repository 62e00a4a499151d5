"""Names to entities."""

from __future__ import annotations

from .exact import ExactMatches, ExactTable, build_exact
from .hits import Hits, NameEngine, Surfaces
from .impacts import Impacts, build_impacts, okapi_idf
from .linker import ENGINES, STEPS, Links, NameLinker, build_linker, build_name_index, open_name_index
from .okapi import RankBm25
from .pruned import PrunedIndex
from .sparse import Bm25s

__all__ = [
    "ENGINES",
    "STEPS",
    "Bm25s",
    "ExactMatches",
    "ExactTable",
    "Hits",
    "Impacts",
    "Links",
    "NameEngine",
    "NameLinker",
    "PrunedIndex",
    "RankBm25",
    "Surfaces",
    "build_exact",
    "build_impacts",
    "build_linker",
    "build_name_index",
    "okapi_idf",
    "open_name_index",
]
