"""Class prompts with external knowledge for vision-language encoders."""

from knowledge_prompts.__about__ import __version__
from knowledge_prompts.class_prompts import ClassPrompts, built_in_sets, fill, load_class_prompts, without_aliases
from knowledge_prompts.knowledge import KnowledgeSource
from knowledge_prompts.prompt_set import Prompt, PromptSet, build_prompts, check_style, join_knowledge
from knowledge_prompts.show import show_prompts
from knowledge_prompts.stored import StoredKnowledge
from knowledge_prompts.wordnet import WordNet, WordNetDefinition, WordNetPath
from knowledge_prompts.wordnet_files import WordNetFiles, WordNetMissingError, find_wordnet

__all__ = [
    "ClassPrompts",
    "KnowledgeSource",
    "Prompt",
    "PromptSet",
    "StoredKnowledge",
    "WordNet",
    "WordNetDefinition",
    "WordNetFiles",
    "WordNetMissingError",
    "WordNetPath",
    "__version__",
    "build_prompts",
    "built_in_sets",
    "check_style",
    "fill",
    "find_wordnet",
    "join_knowledge",
    "load_class_prompts",
    "show_prompts",
    "without_aliases",
]
