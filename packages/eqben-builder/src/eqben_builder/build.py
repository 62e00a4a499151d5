"""The former name of `eqben_builder.building`, for one more release."""

from __future__ import annotations

import warnings
from typing import Any

from eqben_builder import building
from eqben_builder.building import __all__ as __all__


def __getattr__(name: str) -> Any:
    if name not in building.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"eqben_builder.build.{name} is eqben_builder.building.{name} now", DeprecationWarning, stacklevel=2)
    return getattr(building, name)
