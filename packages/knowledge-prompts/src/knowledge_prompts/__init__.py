"""Class prompts with external knowledge for vision-language encoders.

Names are imported when they are first used, so that reading WordNet needs neither NumPy's memory nor its time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from knowledge_prompts.__about__ import __version__

if TYPE_CHECKING:
    from knowledge_prompts.coverage_table import Coverage as Coverage
    from knowledge_prompts.coverage_table import coverage as coverage
    from knowledge_prompts.encoding.diversity import (
        ConceptMap as ConceptMap,
    )
    from knowledge_prompts.encoding.diversity import (
        concept_features as concept_features,
    )
    from knowledge_prompts.encoding.diversity import (
        concept_map as concept_map,
    )
    from knowledge_prompts.encoding.diversity import (
        concept_spread as concept_spread,
    )
    from knowledge_prompts.encoding.diversity import (
        map_svg as map_svg,
    )
    from knowledge_prompts.encoding.embeddings import (
        ClassEmbeddings as ClassEmbeddings,
    )
    from knowledge_prompts.encoding.embeddings import (
        class_embeddings as class_embeddings,
    )
    from knowledge_prompts.encoding.text_tower import open_clip_text as open_clip_text
    from knowledge_prompts.encoding.tokens import TokenRules as TokenRules
    from knowledge_prompts.encoding.tokens import token_rules as token_rules
    from knowledge_prompts.encoding.truncation import (
        LongPrompt as LongPrompt,
    )
    from knowledge_prompts.encoding.truncation import (
        TruncationReport as TruncationReport,
    )
    from knowledge_prompts.encoding.truncation import (
        truncation_report as truncation_report,
    )
    from knowledge_prompts.gather import (
        BuiltKnowledge as BuiltKnowledge,
    )
    from knowledge_prompts.gather import (
        build_files as build_files,
    )
    from knowledge_prompts.gather import (
        gather_sources as gather_sources,
    )
    from knowledge_prompts.progress import Progress as Progress
    from knowledge_prompts.prompts.class_prompts import (
        ClassPrompts as ClassPrompts,
    )
    from knowledge_prompts.prompts.class_prompts import (
        built_in_sets as built_in_sets,
    )
    from knowledge_prompts.prompts.class_prompts import (
        fill as fill,
    )
    from knowledge_prompts.prompts.class_prompts import (
        load_class_prompts as load_class_prompts,
    )
    from knowledge_prompts.prompts.class_prompts import (
        without_aliases as without_aliases,
    )
    from knowledge_prompts.prompts.prompt_set import (
        Prompt as Prompt,
    )
    from knowledge_prompts.prompts.prompt_set import (
        PromptSet as PromptSet,
    )
    from knowledge_prompts.prompts.prompt_set import (
        build_prompts as build_prompts,
    )
    from knowledge_prompts.prompts.prompt_set import (
        check_style as check_style,
    )
    from knowledge_prompts.prompts.prompt_set import (
        join_knowledge as join_knowledge,
    )
    from knowledge_prompts.show import show_prompts as show_prompts
    from knowledge_prompts.sources.elevater_files import (
        ExternalRecord as ExternalRecord,
    )
    from knowledge_prompts.sources.elevater_files import (
        external_sources as external_sources,
    )
    from knowledge_prompts.sources.elevater_files import (
        read_external as read_external,
    )
    from knowledge_prompts.sources.elevater_files import (
        read_gpt3 as read_gpt3,
    )
    from knowledge_prompts.sources.elevater_files import (
        stored_sources as stored_sources,
    )
    from knowledge_prompts.sources.elevater_files import (
        write_external as write_external,
    )
    from knowledge_prompts.sources.elevater_files import (
        write_gpt3 as write_gpt3,
    )
    from knowledge_prompts.sources.generated import GeneratedKnowledge as GeneratedKnowledge
    from knowledge_prompts.sources.glip_files import glip_sources as glip_sources
    from knowledge_prompts.sources.in_context import (
        in_context_prompt as in_context_prompt,
    )
    from knowledge_prompts.sources.in_context import (
        sample_contexts as sample_contexts,
    )
    from knowledge_prompts.sources.json_records import KnowledgeFileError as KnowledgeFileError
    from knowledge_prompts.sources.knowledge import KnowledgeSource as KnowledgeSource
    from knowledge_prompts.sources.language_model import (
        Endpoint as Endpoint,
    )
    from knowledge_prompts.sources.language_model import (
        LanguageModel as LanguageModel,
    )
    from knowledge_prompts.sources.language_model import (
        LanguageModelError as LanguageModelError,
    )
    from knowledge_prompts.sources.language_model import (
        LocalModel as LocalModel,
    )
    from knowledge_prompts.sources.named import named_sources as named_sources
    from knowledge_prompts.sources.named import source_names as source_names
    from knowledge_prompts.sources.named_texts import (
        cupl as cupl,
    )
    from knowledge_prompts.sources.named_texts import (
        read_named_texts as read_named_texts,
    )
    from knowledge_prompts.sources.named_texts import (
        visual_descriptors as visual_descriptors,
    )
    from knowledge_prompts.sources.random_words import RandomWords as RandomWords
    from knowledge_prompts.sources.random_words import vocabulary_of as vocabulary_of
    from knowledge_prompts.sources.stored import StoredKnowledge as StoredKnowledge
    from knowledge_prompts.sources.wiktextract import Wiktextract as Wiktextract
    from knowledge_prompts.sources.wordnet import (
        WordNet as WordNet,
    )
    from knowledge_prompts.sources.wordnet import (
        WordNetDefinition as WordNetDefinition,
    )
    from knowledge_prompts.sources.wordnet import (
        WordNetPath as WordNetPath,
    )
    from knowledge_prompts.sources.wordnet_files import (
        WordNetFiles as WordNetFiles,
    )
    from knowledge_prompts.sources.wordnet_files import (
        WordNetMissingError as WordNetMissingError,
    )
    from knowledge_prompts.sources.wordnet_files import (
        find_wordnet as find_wordnet,
    )

_LAZY = {
    "Coverage": "coverage_table",
    "coverage": "coverage_table",
    "ConceptMap": "encoding.diversity",
    "concept_features": "encoding.diversity",
    "concept_map": "encoding.diversity",
    "concept_spread": "encoding.diversity",
    "map_svg": "encoding.diversity",
    "ClassEmbeddings": "encoding.embeddings",
    "class_embeddings": "encoding.embeddings",
    "open_clip_text": "encoding.text_tower",
    "TokenRules": "encoding.tokens",
    "token_rules": "encoding.tokens",
    "LongPrompt": "encoding.truncation",
    "TruncationReport": "encoding.truncation",
    "truncation_report": "encoding.truncation",
    "BuiltKnowledge": "gather",
    "build_files": "gather",
    "gather_sources": "gather",
    "Progress": "progress",
    "ClassPrompts": "prompts.class_prompts",
    "built_in_sets": "prompts.class_prompts",
    "fill": "prompts.class_prompts",
    "load_class_prompts": "prompts.class_prompts",
    "without_aliases": "prompts.class_prompts",
    "Prompt": "prompts.prompt_set",
    "PromptSet": "prompts.prompt_set",
    "build_prompts": "prompts.prompt_set",
    "check_style": "prompts.prompt_set",
    "join_knowledge": "prompts.prompt_set",
    "show_prompts": "show",
    "ExternalRecord": "sources.elevater_files",
    "external_sources": "sources.elevater_files",
    "read_external": "sources.elevater_files",
    "read_gpt3": "sources.elevater_files",
    "stored_sources": "sources.elevater_files",
    "write_external": "sources.elevater_files",
    "write_gpt3": "sources.elevater_files",
    "GeneratedKnowledge": "sources.generated",
    "glip_sources": "sources.glip_files",
    "in_context_prompt": "sources.in_context",
    "sample_contexts": "sources.in_context",
    "KnowledgeFileError": "sources.json_records",
    "KnowledgeSource": "sources.knowledge",
    "Endpoint": "sources.language_model",
    "LanguageModel": "sources.language_model",
    "LanguageModelError": "sources.language_model",
    "LocalModel": "sources.language_model",
    "named_sources": "sources.named",
    "source_names": "sources.named",
    "cupl": "sources.named_texts",
    "read_named_texts": "sources.named_texts",
    "visual_descriptors": "sources.named_texts",
    "RandomWords": "sources.random_words",
    "vocabulary_of": "sources.random_words",
    "StoredKnowledge": "sources.stored",
    "Wiktextract": "sources.wiktextract",
    "WordNet": "sources.wordnet",
    "WordNetDefinition": "sources.wordnet",
    "WordNetPath": "sources.wordnet",
    "WordNetFiles": "sources.wordnet_files",
    "WordNetMissingError": "sources.wordnet_files",
    "find_wordnet": "sources.wordnet_files",
}

__all__ = ["__version__", *_LAZY]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value
