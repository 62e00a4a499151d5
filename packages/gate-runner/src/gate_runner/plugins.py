"""Code of others: records that packages add by entry points, and models that the user names as ``MODULE:FUNCTION``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, TypeVar

from gate_runner.errors import EncoderError
from wary_files.working_folder import made_by

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


def own_model(spec: str) -> Any:
    """A model that can be called, as `made_by` makes it."""
    model = made_by(spec, "model", error=EncoderError)
    if not callable(model):
        function_name = spec.partition(":")[2]
        raise EncoderError(f"model {spec!r}: {function_name}() returned {type(model).__name__}, which cannot be called")
    return model
