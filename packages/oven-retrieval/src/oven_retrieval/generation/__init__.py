"""Generated names that exist."""

from __future__ import annotations

from .trie import NameTrie, allowed_tokens_fn

__all__ = ["NameTrie", "allowed_tokens_fn"]
