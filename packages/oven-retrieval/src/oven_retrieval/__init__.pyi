"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .__about__ import __version__ as __version__
from .building import add_entities as add_entities
from .building import build_kb as build_kb
from .building import build_kb_from_file as build_kb_from_file
from .building import remove_entities as remove_entities
from .entity import Entity as Entity
from .entity import EntityFileError as EntityFileError
from .folder import FolderError as FolderError
from .kb import KnowledgeBase as KnowledgeBase
from .names import STEPS as STEPS
from .names import NameLinker as NameLinker
from .names import build_linker as build_linker
from .names import build_name_index as build_name_index
from .names import compile_loops as compile_loops
from .names import extend_linker as extend_linker
from .names import open_name_index as open_name_index
from .names import update_name_index as update_name_index
from .ranking import Ranking as Ranking
from .readers import read_entities as read_entities
from .wikidata import WikidataDump as WikidataDump
