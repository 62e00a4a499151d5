"""Class prompts with external knowledge for vision-language encoders.

Names are imported when they are first used, so that reading WordNet needs neither NumPy's memory nor its time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from knowledge_prompts.__about__ import __version__

if TYPE_CHECKING:
    from knowledge_prompts.class_prompts import ClassPrompts, built_in_sets, fill, load_class_prompts, without_aliases
    from knowledge_prompts.coverage_table import Coverage, coverage
    from knowledge_prompts.diversity import ConceptMap, concept_features, concept_map, concept_spread, map_svg
    from knowledge_prompts.elevater_files import (
        ExternalRecord,
        external_sources,
        read_external,
        read_gpt3,
        stored_sources,
        write_external,
        write_gpt3,
    )
    from knowledge_prompts.embeddings import ClassEmbeddings, class_embeddings
    from knowledge_prompts.gather import BuiltKnowledge, build_files, gather_sources
    from knowledge_prompts.generated import GeneratedKnowledge
    from knowledge_prompts.in_context import in_context_prompt, sample_contexts
    from knowledge_prompts.json_records import KnowledgeFileError
    from knowledge_prompts.knowledge import KnowledgeSource
    from knowledge_prompts.language_model import Endpoint, LanguageModel, LanguageModelError, LocalModel
    from knowledge_prompts.named_texts import cupl, read_named_texts, visual_descriptors
    from knowledge_prompts.prompt_set import Prompt, PromptSet, build_prompts, check_style, join_knowledge
    from knowledge_prompts.random_words import RandomWords, vocabulary_of
    from knowledge_prompts.show import show_prompts
    from knowledge_prompts.stored import StoredKnowledge
    from knowledge_prompts.text_tower import open_clip_text
    from knowledge_prompts.tokens import TokenRules, token_rules
    from knowledge_prompts.truncation import LongPrompt, TruncationReport, truncation_report
    from knowledge_prompts.wiktextract import Wiktextract
    from knowledge_prompts.wordnet import WordNet, WordNetDefinition, WordNetPath
    from knowledge_prompts.wordnet_files import WordNetFiles, WordNetMissingError, find_wordnet

__all__ = [
    "BuiltKnowledge",
    "ClassEmbeddings",
    "ClassPrompts",
    "ConceptMap",
    "Coverage",
    "Endpoint",
    "ExternalRecord",
    "GeneratedKnowledge",
    "KnowledgeFileError",
    "KnowledgeSource",
    "LanguageModel",
    "LanguageModelError",
    "LocalModel",
    "LongPrompt",
    "Prompt",
    "PromptSet",
    "RandomWords",
    "StoredKnowledge",
    "TokenRules",
    "TruncationReport",
    "Wiktextract",
    "WordNet",
    "WordNetDefinition",
    "WordNetFiles",
    "WordNetMissingError",
    "WordNetPath",
    "__version__",
    "build_files",
    "build_prompts",
    "built_in_sets",
    "check_style",
    "class_embeddings",
    "concept_features",
    "concept_map",
    "concept_spread",
    "coverage",
    "cupl",
    "external_sources",
    "fill",
    "find_wordnet",
    "gather_sources",
    "in_context_prompt",
    "join_knowledge",
    "load_class_prompts",
    "map_svg",
    "open_clip_text",
    "read_external",
    "read_gpt3",
    "read_named_texts",
    "sample_contexts",
    "show_prompts",
    "stored_sources",
    "token_rules",
    "truncation_report",
    "visual_descriptors",
    "vocabulary_of",
    "without_aliases",
    "write_external",
    "write_gpt3",
]

_HOME = {
    "BuiltKnowledge": "gather",
    "build_files": "gather",
    "gather_sources": "gather",
    "ClassEmbeddings": "embeddings",
    "ClassPrompts": "class_prompts",
    "ConceptMap": "diversity",
    "Coverage": "coverage_table",
    "Endpoint": "language_model",
    "ExternalRecord": "elevater_files",
    "GeneratedKnowledge": "generated",
    "KnowledgeFileError": "json_records",
    "KnowledgeSource": "knowledge",
    "LanguageModel": "language_model",
    "LanguageModelError": "language_model",
    "LocalModel": "language_model",
    "LongPrompt": "truncation",
    "Prompt": "prompt_set",
    "PromptSet": "prompt_set",
    "RandomWords": "random_words",
    "StoredKnowledge": "stored",
    "TokenRules": "tokens",
    "TruncationReport": "truncation",
    "Wiktextract": "wiktextract",
    "WordNet": "wordnet",
    "WordNetDefinition": "wordnet",
    "WordNetFiles": "wordnet_files",
    "WordNetMissingError": "wordnet_files",
    "WordNetPath": "wordnet",
    "build_prompts": "prompt_set",
    "built_in_sets": "class_prompts",
    "check_style": "prompt_set",
    "class_embeddings": "embeddings",
    "concept_features": "diversity",
    "concept_map": "diversity",
    "concept_spread": "diversity",
    "coverage": "coverage_table",
    "cupl": "named_texts",
    "external_sources": "elevater_files",
    "fill": "class_prompts",
    "find_wordnet": "wordnet_files",
    "in_context_prompt": "in_context",
    "join_knowledge": "prompt_set",
    "load_class_prompts": "class_prompts",
    "map_svg": "diversity",
    "open_clip_text": "text_tower",
    "read_external": "elevater_files",
    "read_gpt3": "elevater_files",
    "read_named_texts": "named_texts",
    "sample_contexts": "in_context",
    "show_prompts": "show",
    "stored_sources": "elevater_files",
    "token_rules": "tokens",
    "truncation_report": "truncation",
    "visual_descriptors": "named_texts",
    "vocabulary_of": "random_words",
    "without_aliases": "class_prompts",
    "write_external": "elevater_files",
    "write_gpt3": "elevater_files",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
