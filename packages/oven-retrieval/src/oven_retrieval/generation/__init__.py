"""Generated names that exist."""

from __future__ import annotations

from oven_retrieval.generation.answers import Asked, load_generator, make_prompts, read_asked, write_answers
from oven_retrieval.generation.names import Generated, NameGenerator
from oven_retrieval.generation.trie import NameTrie, allowed_tokens_fn

__all__ = [
    "Asked",
    "Generated",
    "NameGenerator",
    "NameTrie",
    "allowed_tokens_fn",
    "load_generator",
    "make_prompts",
    "read_asked",
    "write_answers",
]
