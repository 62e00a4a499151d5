"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .extended import extend_linker as extend_linker
from .impacts import build_impacts as build_impacts
from .index import build_linker as build_linker
from .index import build_name_index as build_name_index
from .index import open_name_index as open_name_index
from .index import update_name_index as update_name_index
from .inflection import read_exceptions as read_exceptions
from .linker import STEPS as STEPS
from .linker import NameLinker as NameLinker
from .loops import compile_loops as compile_loops
from .okapi import RankBm25 as RankBm25
from .pruned import PrunedIndex as PrunedIndex
