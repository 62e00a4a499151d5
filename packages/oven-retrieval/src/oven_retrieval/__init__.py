"""Link names, images and questions to millions of entities on one machine."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from oven_retrieval.__about__ import __version__

if TYPE_CHECKING:
    from oven_retrieval.building import add_entities, build_kb, build_kb_from_file, compact, remove_entities
    from oven_retrieval.entity import Entity, EntityFileError
    from oven_retrieval.filters import FILTERS
    from oven_retrieval.folder import FolderError
    from oven_retrieval.kb import KnowledgeBase, LinkedEntity
    from oven_retrieval.names import (
        STEPS,
        NameLinker,
        build_linker,
        build_name_index,
        open_name_index,
        update_name_index,
    )
    from oven_retrieval.ranking import Ranking
    from oven_retrieval.readers import read_csv, read_entities, read_jsonl, read_wiki6m, read_wordnet
    from oven_retrieval.wikidata import WikidataDump
    from oven_retrieval.wordnet import find_wordnet, read_wordnet_nouns

_MODULES = {
    "building": ("add_entities", "build_kb", "build_kb_from_file", "compact", "remove_entities"),
    "entity": ("Entity", "EntityFileError"),
    "filters": ("FILTERS",),
    "folder": ("FolderError",),
    "kb": ("KnowledgeBase", "LinkedEntity"),
    "names": ("STEPS", "NameLinker", "build_linker", "build_name_index", "open_name_index", "update_name_index"),
    "ranking": ("Ranking",),
    "readers": ("read_csv", "read_entities", "read_jsonl", "read_wiki6m", "read_wordnet"),
    "wikidata": ("WikidataDump",),
    "wordnet": ("find_wordnet", "read_wordnet_nouns"),
}
"""What is imported when it is first asked for: who links names reads no dumps."""

__all__ = [
    "FILTERS",
    "STEPS",
    "Entity",
    "EntityFileError",
    "FolderError",
    "KnowledgeBase",
    "LinkedEntity",
    "NameLinker",
    "Ranking",
    "WikidataDump",
    "__version__",
    "add_entities",
    "build_kb",
    "build_kb_from_file",
    "build_linker",
    "build_name_index",
    "compact",
    "find_wordnet",
    "open_name_index",
    "read_csv",
    "read_entities",
    "read_jsonl",
    "read_wiki6m",
    "read_wordnet",
    "read_wordnet_nouns",
    "remove_entities",
    "update_name_index",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    from oven_retrieval.ranking import former_names

    return former_names(__name__, "Links")(name)
