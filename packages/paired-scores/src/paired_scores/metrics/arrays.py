"""Predictions and targets brought into one form, or refused with the value that is wrong."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

IGNORED = -100


def as_array(values: Any, name: str = "values") -> Array:
    """Return a NumPy array of numbers or truth values from a tensor, an array or a list.

    Raises:
        ValueError: texts, dates, complex numbers, objects that are no numbers, such as None among them, a value that
            is masked, or a tensor without values, sparse or quantised.
    """
    if hasattr(values, "detach"):
        values = values.detach()
        values = values if values.device.type == "meta" else values.cpu()
        values = values.float() if values.is_floating_point() and values.element_size() < 4 else values
        if values.device.type == "meta" or values.is_quantized or str(values.layout) != "torch.strided":
            form = "quantised" if values.is_quantized else f"on {values.device}, {values.layout}"
            raise ValueError(f"{name}: expected a dense tensor with values, got one that is {form}")
        values = values.numpy()
    refuse_masked(values, name)
    array = np.asarray(values)
    if array.dtype.kind == "O":
        flat = list(array.flat)
        if any(not isinstance(value, Real) for value in flat):
            wrong = next(value for value in flat if not isinstance(value, Real))
            raise ValueError(f"{name}: expected numbers, got {wrong!r:.80} of type {type(wrong).__name__} among them")
        array = np.array(flat).reshape(array.shape)
    if array.dtype.kind not in "biuf":
        shown = f", such as {str(array.flat[0])[:80]}" if array.size else ""
        raise ValueError(f"{name}: expected numbers, got {array.dtype}{shown}")
    return array


def refuse_masked(values: Any, name: str = "values") -> None:
    """Refuse a masked array's masked values, which NumPy's and torch's functions take for values.

    Raises:
        ValueError: a value is masked; shows its place.

    Example:
        >>> refuse_masked(np.ma.masked_array([1, 2], [False, False]))
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        place = np.argwhere(np.ma.getmaskarray(values))[0].tolist()
        raise ValueError(f"{name}: the value at {place} is masked; leave its sample out, or fill it")


class UndefinedMetricError(ValueError):
    """A metric has no value on these samples, though every number is in order: such as a ranking of one class."""


def refuse_nan(name: str, values: Array, before: int = 0) -> None:
    """Raise for the first sample that holds NaN or infinity."""
    if np.issubdtype(values.dtype, np.floating):
        bad = ~np.isfinite(values).reshape(len(values), -1).all(1)
        if bad.any():
            raise ValueError(f"{name}: sample {before + int(bad.argmax())} holds NaN or infinity")


def ratio(upper: Floats, lower: Floats, otherwise: float = np.nan) -> Floats:
    """Quotient where `lower` is above 0."""
    quotient = np.full(upper.shape, otherwise)
    np.divide(upper, lower, out=quotient, where=lower > 0)
    return quotient


def mean_over(columns: Floats) -> Floats:
    """Mean of each row [r, l] over the columns that are not NaN; NaN where none is."""
    defined = ~np.isnan(columns)
    total: Floats = np.where(defined, columns, 0.0).sum(1)
    return ratio(total, defined.sum(1).astype(np.float64))


def require_whole(**values: object) -> None:
    """Refuse numbers that count something and are not whole; the message has name and value."""
    for name, value in values.items():
        if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__")):
            raise ValueError(f"{name} is {value!r:.60}; expected a whole number")


def require_sampling(*, level: object = 0.5, seed: object = 0, **least: tuple[object, int]) -> None:
    """Refuse a level, a seed or numbers of draws that cannot be; the message has name and value.

    Args:
        level: of an interval, in (0, 1).
        seed: None draws one.
        least: of each number its value and the least that can be.

    Raises:
        ValueError: one of them is of another type, or out of its range.

    Example:
        >>> require_sampling(level=0.95, seed=0, resamples=(1000, 2))
    """
    require_whole(seed=seed, **{name: value for name, (value, _) in least.items()})
    bounds: list[tuple[str, Any, int]] = [(name, value, low) for name, (value, low) in least.items()]
    for name, value, low in [*bounds, *([] if seed is None else [("seed", seed, 0)])]:
        if value is None or value < low:
            raise ValueError(f"{name} is {value}; expected a whole number of at least {low}")
    if isinstance(level, bool) or not isinstance(level, Real) or not 0 < float(level) < 1:
        raise ValueError(f"level is {level!r:.60}; expected a number in (0, 1)")


def class_labels(targets: Array, classes: int | None, what: str = "target") -> Array:
    """Check a vector of classes, which errors call ``what``."""
    if targets.ndim != 1:
        raise ValueError(f"{what}s must be one class per sample, got shape {targets.shape}")
    labels = targets.astype(np.int64)
    wrong = (labels != targets) | (labels < 0) | (labels >= (np.iinfo(np.int64).max if classes is None else classes))
    if wrong.any():
        index = int(wrong.argmax())
        span = "0 or more" if classes is None else f"0..{classes - 1}"
        raise ValueError(f"{what} {targets[index]} of sample {index} is out of range, expected an integer in {span}")
    return labels


def score_columns(predictions: Array, targets: Array) -> tuple[Floats, Floats]:
    """Scores and 0/1 truths with one column per label."""
    scores = predictions.astype(np.float64)
    if scores.ndim == 2 and targets.ndim == 1 and scores.shape[1] == 1:
        truths = targets[:, None]
    elif scores.ndim == 2 and targets.ndim == 1:
        labels = class_labels(targets, scores.shape[1])
        if scores.shape[1] == 2:
            scores, truths = scores[:, 1:] - scores[:, :1], labels[:, None]
        else:
            truths = np.eye(scores.shape[1], dtype=np.int64)[labels]
    elif scores.ndim == targets.ndim == 1:
        scores, truths = scores[:, None], targets[:, None]
    else:
        truths = targets
    if scores.shape != truths.shape:
        raise ValueError(f"predictions have shape {predictions.shape}, targets {targets.shape}; see the metric's forms")
    wrong = ~np.isin(truths, (0, 1))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise ValueError(f"target {truths[row, column]} of sample {row}, label {column}, expected 0 or 1")
    return scores, truths.astype(np.float64)
