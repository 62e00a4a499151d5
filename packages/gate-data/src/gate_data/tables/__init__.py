"""Lists that data sets' users agree on and that lie in no archive: class splits, label numbers, tiers."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def read_table(name: str) -> Any:
    """One of the tables of this folder, by its name without the ending."""
    return json.loads((files(__name__) / f"{name}.json").read_text(encoding="utf-8"))
