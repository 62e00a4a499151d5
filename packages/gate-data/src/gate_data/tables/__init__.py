"""Lists that data sets' users agree on and that lie in no archive: class splits, label numbers, tiers."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["read_table"]


@cache
def read_table(name: str) -> Any:
    """One of the tables of this folder.

    Args:
        name: without its ending.

    Example:
        >>> len(read_table("class_splits")["splits"]["vgg"]["test"])
        16
    """
    return json.loads((files(__name__) / f"{name}.json").read_text(encoding="utf-8"))
