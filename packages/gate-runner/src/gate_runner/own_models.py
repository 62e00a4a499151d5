"""The user's own models for pairs: ``package.module:function``, where the function takes nothing and returns one."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from gate_runner.errors import EncoderError


def own_model(spec: str) -> Any:
    """Import the module (the current directory is searched too), call the function, and return what it made.

    Args:
        spec: ``package.module:function``.

    Returns:
        Something that can be called.

    Raises:
        EncoderError: no such module or function, the function fails, or what it returns cannot be called.

    Example:
        >>> own_model("collections:Counter")
        Traceback (most recent call last):
        ...
        gate_runner.errors.EncoderError: model 'collections:Counter': Counter() returned Counter, which cannot be called
    """
    module_name, colon, function_name = spec.partition(":")
    if not colon or not module_name or not function_name:
        raise EncoderError(f"model {spec!r}: expected PACKAGE.MODULE:FUNCTION")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last: a file that is called like a library must not take its place
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise EncoderError(f"model {spec!r}: cannot import {module_name!r}: {error}") from error
    if not hasattr(module, function_name):
        raise EncoderError(f"model {spec!r}: module {module_name!r} has no {function_name!r}")
    try:
        made = getattr(module, function_name)()
    except Exception as error:
        raise EncoderError(f"model {spec!r}: {function_name}() raised {type(error).__name__}: {error}") from error
    if not callable(made):
        raise EncoderError(f"model {spec!r}: {function_name}() returned {type(made).__name__}, which cannot be called")
    return made
