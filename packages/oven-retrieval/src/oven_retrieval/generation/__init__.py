"""Generated names that exist."""

from __future__ import annotations

from .answers import Asked, load_generator, make_prompts, read_asked, write_answers
from .names import Generated, NameGenerator
from .trie import NameTrie, allowed_tokens_fn

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
