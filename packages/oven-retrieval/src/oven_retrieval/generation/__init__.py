"""Generated names that exist."""

from oven_retrieval.generation.answers import load_generator, write_answers
from oven_retrieval.generation.names import NameGenerator
from oven_retrieval.generation.trie import NameTrie, allowed_tokens_fn

__all__ = ["NameGenerator", "NameTrie", "allowed_tokens_fn", "load_generator", "write_answers"]
