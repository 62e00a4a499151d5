"""Code of others: records that packages add by entry points, and models that the user names as ``MODULE:FUNCTION``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, TypeVar

from gate_runner.errors import EncoderError
from wary_files.working_folder import import_named

Kind = TypeVar("Kind")


def with_plugins(group: str, kind: type[Kind], ours: Mapping[str, Kind]) -> dict[str, Kind]:
    """Our records and those of plug-ins, by id.

    A plug-in that cannot be loaded, or whose record takes an id that is there already, is warned about and left out.
    """
    named = dict(ours)
    for point in entry_points(group=group):
        try:
            records = _several(point.load(), kind)
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises must not take the others away
            _left_out(point.value, f"{type(error).__name__}: {error}")
            continue
        for record in records:
            identity: str = vars(record)["id"]
            if identity in named:
                _left_out(point.value, f"there is a {kind.__name__} {identity!r} already")
            else:
                named[identity] = record
    return named


def _left_out(point: str, reason: str) -> None:
    warnings.warn(f"plug-in {point} is left out: {reason}", RuntimeWarning, stacklevel=4)


def _several(value: Any, kind: type[Kind]) -> list[Kind]:
    if callable(value) and not isinstance(value, kind):
        value = value()
    records = [value] if isinstance(value, kind) else list(value)
    for record in records:
        if not isinstance(record, kind):
            raise TypeError(f"expected a {kind.__name__} or several, got {type(record).__name__}")
    return records


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
