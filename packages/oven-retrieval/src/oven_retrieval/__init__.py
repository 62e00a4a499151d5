"""Link names, images and questions to millions of entities on one machine."""

from __future__ import annotations

from .__about__ import __version__
from .building import add_entities, build_kb, build_kb_from_file, compact, remove_entities
from .entity import Entity, EntityFileError
from .filters import FILTERS
from .folder import FolderError
from .kb import KnowledgeBase
from .names import STEPS, Links, NameLinker, build_linker, build_name_index, open_name_index, update_name_index
from .readers import read_csv, read_entities, read_jsonl, read_wiki6m, read_wordnet

__all__ = [
    "FILTERS",
    "STEPS",
    "Entity",
    "EntityFileError",
    "FolderError",
    "KnowledgeBase",
    "Links",
    "NameLinker",
    "__version__",
    "add_entities",
    "build_kb",
    "build_kb_from_file",
    "build_linker",
    "build_name_index",
    "compact",
    "open_name_index",
    "read_csv",
    "read_entities",
    "read_jsonl",
    "read_wiki6m",
    "read_wordnet",
    "remove_entities",
    "update_name_index",
]
