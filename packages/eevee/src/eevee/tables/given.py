"""Values and labels as callers hold them, arrays with masks and pandas columns among them, in this package's form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from eevee.errors import EeveeError

if TYPE_CHECKING:
    from jaxtyping import Float


def is_missing(value: Any) -> bool:
    """Whether a value stands for none: None, and what does not equal itself, such as NaN, NaT and pandas' NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # NA refuses to be true or false, as arrays do
        return type(value).__name__ == "NAType"


def as_values(values: Any, where: str) -> Float[np.ndarray, ...]:
    """Return numbers as an array of their own, NaN where one is missing or masked.

    Raises:
        EeveeError: texts, dates, complex numbers or other objects; shows one.
    """
    if isinstance(values, np.ma.MaskedArray):
        mask, values = np.ma.getmaskarray(values), np.ma.getdata(values).astype(object)
        values[mask] = None
    held = np.asarray(values)
    if held.dtype.kind == "O":
        wrong = next((value for value in held.flat if not (is_missing(value) or _is_number(value))), None)
        if wrong is not None:
            raise EeveeError(f"{where}: {wrong!r:.60} is no number")
        held = np.array([np.nan if is_missing(value) else float(value) for value in held.flat]).reshape(held.shape)
    if held.dtype.kind not in "biuf":
        raise EeveeError(f"{where}: expected numbers, got {held.dtype}")
    return np.array(held, dtype=np.float64)


def as_number(value: Any, where: str) -> float:
    """Return one number, NaN where it is missing.

    Raises:
        EeveeError: a text, a truth value or another object; shows it.
    """
    if is_missing(value):
        return float("nan")
    if isinstance(value, bool | np.bool_) or not _is_number(value):
        raise EeveeError(f"{where}: {value!r:.60}; expected a number")
    return float(value)


def as_labels(labels: Iterable[Any], what: str) -> tuple[str, ...]:
    """Return one text for each model, empty where a label is missing.

    Raises:
        EeveeError: one text, or what has no order; shows it.
    """
    if isinstance(labels, str | bytes | Mapping | set | frozenset):
        raise EeveeError(f"{what} are {labels!r:.60}; expected a list of one for each model")
    return tuple("" if is_missing(label) else str(label) for label in labels)


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | np.bool_ | np.integer | np.floating)
