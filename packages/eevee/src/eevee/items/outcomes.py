"""Outcomes of models on the single items of benchmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eevee.errors import EeveeError
from eevee.tables.given import as_number, as_values

if TYPE_CHECKING:
    from jaxtyping import Float

FEWEST_MODELS = 5
FEWEST_ITEMS = 20


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What each model made of each item of one benchmark.

    Args:
        benchmark: its id.
        models: ids, unique, at least five.
        items: ids, unique, at least twenty.
        values: floats of shape (models, items) in 0 to 1: right or wrong, or a share; NaN where not measured.
        unit: what a score of 1 is called: 1, or 100 for percent; above 0.
        digest: of the data, so that items are taken from that very test set; "" where unknown.
        direction: whether ``higher`` or ``lower`` outcomes are better; an error, say, or a Brier score, is lower.

    Raises:
        EeveeError: shapes that do not fit, ids that repeat, too few of them, values outside 0 to 1, or all equal,
            another direction, or a unit that is not above 0; the message shows it.

    Example:
        >>> values = (np.arange(150).reshape(5, 30) % 7 > 2).astype(float)
        >>> toy = Outcomes("toy", tuple("abcde"), tuple(map(str, range(30))), values)
        >>> toy.scores().round(2).tolist()
        [0.53, 0.57, 0.6, 0.57, 0.53]
    """

    benchmark: str
    models: tuple[str, ...]
    items: tuple[str, ...]
    values: Float[np.ndarray, "models items"]
    unit: float = 1.0
    digest: str = ""
    direction: str = "higher"

    def __post_init__(self) -> None:
        for name in ("models", "items"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        values = as_values(self.values, f"outcomes of {self.benchmark}")
        values.setflags(write=False)
        object.__setattr__(self, "values", values)
        where = f"benchmark {self.benchmark!r}"
        if self.direction not in ("higher", "lower"):
            raise EeveeError(f"{where}: direction {self.direction!r}; expected higher or lower")
        if not 0 < as_number(self.unit, f"{where}: unit") < float("inf"):
            raise EeveeError(f"{where}: unit {self.unit}; expected a finite number above 0, such as 1 or 100")
        if values.shape != (len(self.models), len(self.items)):
            raise EeveeError(
                f"{where}: outcomes have the shape {values.shape}; expected {(len(self.models), len(self.items))} "
                f"(models, items)"
            )
        for kind, ids, least in (("models", self.models, FEWEST_MODELS), ("items", self.items, FEWEST_ITEMS)):
            if len(ids) < least:
                raise EeveeError(f"{where}: {len(ids)} {kind}; expected at least {least}")
            if len(set(ids)) < len(ids):
                twice = next(key for key in ids if ids.count(key) > 1)
                raise EeveeError(f"{where}: {kind[:-1]} {twice!r} appears twice; ids must be unique")
        with np.errstate(invalid="ignore"):
            wrong = (values < 0) | (values > 1)
        if wrong.any():
            row, column = (int(i) for i in np.argwhere(wrong)[0])
            raise EeveeError(
                f"{where}, model {self.models[row]!r}, item {self.items[column]!r}: outcome {values[row, column]:g}; "
                f"expected a number from 0 to 1"
            )
        for kind, ids, axis in (("model", self.models, 1), ("item", self.items, 0)):
            empty = np.isnan(values).all(axis=axis)
            if empty.any():
                raise EeveeError(f"{where}: {kind} {ids[int(np.argmax(empty))]!r} has no outcome at all; leave it out")
        if np.nanmax(values) == np.nanmin(values):
            raise EeveeError(f"{where}: all outcomes are {np.nanmax(values):g}; there is nothing to tell models apart")

    def scores(self) -> Float[np.ndarray, " models"]:
        """Mean over items of each model, 0 to 1."""
        return np.asarray(np.nanmean(self.values, axis=1))
