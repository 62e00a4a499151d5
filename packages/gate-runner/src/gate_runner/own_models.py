"""The user's own models: ``package.module:function``, where the function takes nothing and returns one."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from gate_runner.errors import EncoderError


def made_by(spec: str, kind: str) -> Any:
    """Import the module (the current directory is searched too), call the function, and return what it made."""
    module_name, _, function_name = spec.partition(":")
    if not module_name or not function_name:
        raise EncoderError(f"{kind} {spec!r}: expected PACKAGE.MODULE:FUNCTION")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)  # last: a file that is called like a library must not take its place
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise EncoderError(f"{kind} {spec!r}: cannot import {module_name!r}: {_why(module_name, error)}") from error
    if not hasattr(module, function_name):
        raise EncoderError(f"{kind} {spec!r}: module {module_name!r} has no {function_name!r}")
    try:
        return getattr(module, function_name)()
    except Exception as error:
        raise EncoderError(f"{kind} {spec!r}: {function_name}() raised {type(error).__name__}: {error}") from error


def own_model(spec: str) -> Any:
    """A model that can be called, as `made_by` makes it."""
    model = made_by(spec, "model")
    if not callable(model):
        function_name = spec.partition(":")[2]
        raise EncoderError(f"model {spec!r}: {function_name}() returned {type(model).__name__}, which cannot be called")
    return model


def _why(module_name: str, error: Exception) -> str:
    """Why a module is not imported; a file's name in its place is the most frequent reason."""
    stem = module_name.removesuffix(".py")
    if stem != module_name:
        return f"name the module, not its file: {stem.lstrip('./').replace('/', '.')}:…"
    return str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
