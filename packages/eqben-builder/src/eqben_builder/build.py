"""The former name of `eqben_builder.building`, for one more release."""

from __future__ import annotations

import warnings
from typing import Any

from eqben_builder import building


def __getattr__(name: str) -> Any:
    if name not in dir(building):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"eqben_builder.build.{name} is eqben_builder.building.{name} now", DeprecationWarning, stacklevel=2)
    return getattr(building, name)


def __dir__() -> list[str]:
    return dir(building)
