"""Imports at the moment of need: of ``module:name``, so that listings do not wait for torch, and of extras."""

from __future__ import annotations

import importlib
from typing import Any

from gate_data.errors import MissingExtraError


def named(where: Any) -> Any:
    """What ``"module:name"`` names; anything that is no text is given back as it is."""
    if not isinstance(where, str):
        return where
    module, _, name = where.partition(":")
    module_object = importlib.import_module(module)
    if not name or not hasattr(module_object, name):
        raise ImportError(f"{where!r}: module {module!r} has no {name!r}")
    return getattr(module_object, name)


def extra(name: str, module: str, need: str) -> Any:
    """A module that the extra of a name brings; ``need`` says in the error what it is for."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(f"{need}: pip install 'gate-data[{name}]'") from error
