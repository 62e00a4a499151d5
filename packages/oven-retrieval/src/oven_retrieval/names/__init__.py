"""Names to entities."""

from __future__ import annotations

from .exact import ExactMatches, ExactTable, build_exact, spelled
from .hits import Hits, NameEngine, Surfaces
from .impacts import Impacts, Statistics, build_impacts, merge_statistics, okapi_idf, score_occurrences
from .linker import ENGINES, STEPS, Links, NameLinker, build_linker, build_name_index, open_name_index
from .occurrences import Occurrences, count_tokens, occurrences_of
from .okapi import RankBm25
from .places import NamePlaces, is_shouted, name_places, name_texts
from .pruned import PrunedIndex
from .sparse import Bm25s
from .typos import TypoIndex, allowed_edits, build_typos, edit_distance, open_typo_index, write_typo_index
from .update import update_name_index

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
    "NamePlaces",
    "Occurrences",
    "PrunedIndex",
    "RankBm25",
    "Statistics",
    "Surfaces",
    "TypoIndex",
    "allowed_edits",
    "build_exact",
    "build_impacts",
    "build_linker",
    "build_name_index",
    "build_typos",
    "count_tokens",
    "edit_distance",
    "is_shouted",
    "merge_statistics",
    "name_places",
    "name_texts",
    "occurrences_of",
    "okapi_idf",
    "open_name_index",
    "open_typo_index",
    "score_occurrences",
    "spelled",
    "update_name_index",
    "write_typo_index",
]
