"""Generated names that exist."""

from oven_retrieval.generation.names import NameGenerator
from oven_retrieval.generation.trie import NameTrie, allowed_tokens_fn

__all__ = ["NameGenerator", "NameTrie", "allowed_tokens_fn"]
