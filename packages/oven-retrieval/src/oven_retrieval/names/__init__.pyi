"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .exact import ExactMatches as ExactMatches
from .exact import ExactTable as ExactTable
from .exact import build_exact as build_exact
from .exact import spelled as spelled
from .impacts import Impacts as Impacts
from .impacts import build_impacts as build_impacts
from .impacts import okapi_idf as okapi_idf
from .impacts import score_occurrences as score_occurrences
from .index import ENGINES as ENGINES
from .index import build_linker as build_linker
from .index import build_name_index as build_name_index
from .index import open_name_index as open_name_index
from .index import update_name_index as update_name_index
from .inflection import Inflections as Inflections
from .inflection import LooseTable as LooseTable
from .inflection import build_loose as build_loose
from .inflection import forms as forms
from .inflection import read_exceptions as read_exceptions
from .inflection import singulars as singulars
from .linker import STEPS as STEPS
from .linker import NameLinker as NameLinker
from .ngrams import NearNames as NearNames
from .ngrams import NgramIndex as NgramIndex
from .ngrams import allowed_edits as allowed_edits
from .ngrams import build_ngrams as build_ngrams
from .ngrams import edit_distance as edit_distance
from .occurrences import Occurrences as Occurrences
from .occurrences import count_tokens as count_tokens
from .okapi import RankBm25 as RankBm25
from .places import NamePlaces as NamePlaces
from .places import is_shouted as is_shouted
from .places import name_places as name_places
from .places import name_texts as name_texts
from .pruned import PrunedIndex as PrunedIndex
