"""Generated names that exist."""

from __future__ import annotations

from oven_retrieval.generation.answers import load_generator, make_prompts, write_answers
from oven_retrieval.generation.names import NameGenerator
from oven_retrieval.generation.trie import NameTrie, allowed_tokens_fn
from oven_retrieval.ranking import former_names

__all__ = [
    "NameGenerator",
    "NameTrie",
    "allowed_tokens_fn",
    "load_generator",
    "make_prompts",
    "write_answers",
]

__getattr__ = former_names(__name__, "Generated")
