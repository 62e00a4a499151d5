"""Names to entities."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from oven_retrieval.names.exact import ExactMatches, ExactTable, build_exact, spelled
from oven_retrieval.names.hits import NameEngine, Surfaces
from oven_retrieval.names.impacts import (
    Impacts,
    Statistics,
    build_impacts,
    merge_statistics,
    okapi_idf,
    score_occurrences,
)
from oven_retrieval.names.index import ENGINES, build_linker, build_name_index, open_name_index
from oven_retrieval.names.inflection import forms, read_exceptions, singulars
from oven_retrieval.names.linker import STEPS, NameLinker
from oven_retrieval.names.loose import Inflections, LooseTable, build_loose
from oven_retrieval.names.ngrams import NearNames, NgramIndex, allowed_edits, build_ngrams, edit_distance
from oven_retrieval.names.occurrences import Occurrences, count_tokens
from oven_retrieval.names.places import NamePlaces, is_shouted, name_places, name_texts
from oven_retrieval.names.plain import plain
from oven_retrieval.names.pruned import PrunedIndex

if TYPE_CHECKING:
    from oven_retrieval.names.okapi import RankBm25
    from oven_retrieval.names.update import occurrences_of, update_name_index

_LATER = {"RankBm25": "okapi", "occurrences_of": "update", "update_name_index": "update"}
"""What is imported when it is first asked for."""

__all__ = [
    "ENGINES",
    "STEPS",
    "ExactMatches",
    "ExactTable",
    "Impacts",
    "Inflections",
    "LooseTable",
    "NameEngine",
    "NameLinker",
    "NamePlaces",
    "NearNames",
    "NgramIndex",
    "Occurrences",
    "PrunedIndex",
    "RankBm25",
    "Statistics",
    "Surfaces",
    "allowed_edits",
    "build_exact",
    "build_impacts",
    "build_linker",
    "build_loose",
    "build_name_index",
    "build_ngrams",
    "count_tokens",
    "edit_distance",
    "forms",
    "is_shouted",
    "merge_statistics",
    "name_places",
    "name_texts",
    "occurrences_of",
    "okapi_idf",
    "open_name_index",
    "plain",
    "read_exceptions",
    "score_occurrences",
    "singulars",
    "spelled",
    "update_name_index",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f".{_LATER[name]}", __name__), name)
    from oven_retrieval.ranking import former_names

    return former_names(__name__, "Hits", "Links")(name)
