"""A knowledge base in shards by id, each searched on its own and merged exactly; over machines with the extra `ray`."""

from __future__ import annotations

from .build import build_shards
from .layout import ShardError, ShardLayout
from .search import ShardedSearch, Workers

__all__ = ["ShardError", "ShardLayout", "ShardedSearch", "Workers", "build_shards"]
