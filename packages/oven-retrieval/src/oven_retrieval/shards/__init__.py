"""A knowledge base in shards by id, each searched on its own and merged exactly; over machines with the extra `ray`."""

from __future__ import annotations

from oven_retrieval.shards.build import build_shards
from oven_retrieval.shards.layout import ShardError, ShardLayout
from oven_retrieval.shards.search import ShardedSearch, Workers

__all__ = ["ShardError", "ShardLayout", "ShardedSearch", "Workers", "build_shards"]
