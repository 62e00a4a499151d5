"""What is named by ``module:name`` and imported when it is first needed, so that listings do not wait for torch."""

from __future__ import annotations

import importlib
from typing import Any


def named(where: Any) -> Any:
    """What ``"module:name"`` names; anything that is no text is given back as it is."""
    if not isinstance(where, str):
        return where
    module, _, name = where.partition(":")
    module_object = importlib.import_module(module)
    if not name or not hasattr(module_object, name):
        raise ImportError(f"{where!r}: module {module!r} has no {name!r}")
    return getattr(module_object, name)
