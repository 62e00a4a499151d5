"""The public names, each from its module: the one list of them, read by type checkers and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .__about__ import __version__ as __version__
from .class_words import ClassWords as ClassWords
from .coverage_table import Coverage as Coverage
from .coverage_table import coverage as coverage
from .encoding.distinct import indistinct_classes as indistinct_classes
from .encoding.diversity import concept_map as concept_map
from .encoding.diversity import concept_spread as concept_spread
from .encoding.embeddings import ClassEmbeddings as ClassEmbeddings
from .encoding.embeddings import class_embeddings as class_embeddings
from .encoding.text_tower import open_clip_text as open_clip_text
from .encoding.text_tower import open_clip_text_with_context as open_clip_text_with_context
from .encoding.truncation import TruncationReport as TruncationReport
from .gather import build_files as build_files
from .gather import gather_sources as gather_sources
from .prompts.class_prompts import ClassPrompts as ClassPrompts
from .prompts.class_prompts import built_in_sets as built_in_sets
from .prompts.class_prompts import load_class_prompts as load_class_prompts
from .prompts.prompt_set import PromptSet as PromptSet
from .prompts.prompt_set import build_prompts as build_prompts
from .prompts.taxa import Taxon as Taxon
from .prompts.taxa import read_taxa as read_taxa
from .prompts.taxa import taxon_prompts as taxon_prompts
from .show import show_prompts as show_prompts
from .sources.elevater_files import stored_sources as stored_sources
from .sources.generated import GeneratedKnowledge as GeneratedKnowledge
from .sources.glip_files import glip_sources as glip_sources
from .sources.json_records import KnowledgeFileError as KnowledgeFileError
from .sources.knowledge import KnowledgeSource as KnowledgeSource
from .sources.knowledge import StoredKnowledge as StoredKnowledge
from .sources.language_model import Endpoint as Endpoint
from .sources.language_model import LanguageModel as LanguageModel
from .sources.language_model import LanguageModelError as LanguageModelError
from .sources.named import named_sources as named_sources
from .sources.named import source_names as source_names
from .sources.named_texts import cupl as cupl
from .sources.named_texts import visual_descriptors as visual_descriptors
from .sources.random_words import RandomWords as RandomWords
from .sources.wiktextract import Wiktextract as Wiktextract
from .sources.wordnet import WordNet as WordNet
from .sources.wordnet import WordNetDefinition as WordNetDefinition
from .sources.wordnet import WordNetPath as WordNetPath
from .sources.wordnet_files import WordNetMissingError as WordNetMissingError
