"""What the user names as ``MODULE:FUNCTION``: the module is imported and the function called."""

from __future__ import annotations

from typing import Any

from vision_features.errors import EncoderError
from wary_files.working_folder import import_named


def made_by(spec: str, kind: str) -> Any:
    """Import the module (the current directory is searched too), call the function, and return what it made."""
    module_name, _, function_name = spec.partition(":")
    if not module_name or not function_name:
        raise EncoderError(f"{kind} {spec!r}: expected PACKAGE.MODULE:FUNCTION")
    try:
        module = import_named(module_name)
    except Exception as error:
        raise EncoderError(f"{kind} {spec!r}: cannot import {module_name!r}: {_why(module_name, error)}") from error
    if not hasattr(module, function_name):
        raise EncoderError(f"{kind} {spec!r}: module {module_name!r} has no {function_name!r}")
    try:
        return getattr(module, function_name)()
    except Exception as error:
        raise EncoderError(f"{kind} {spec!r}: {function_name}() raised {type(error).__name__}: {error}") from error


def _why(module_name: str, error: Exception) -> str:
    """Why a module is not imported; a file's name in its place is the most frequent reason."""
    stem = module_name.removesuffix(".py")
    if stem != module_name:
        return f"name the module, not its file: {stem.lstrip('./').replace('/', '.')}:…"
    return str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
