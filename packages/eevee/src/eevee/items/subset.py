"""The items that were chosen for each benchmark, as their file holds them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eevee.errors import EeveeError
from eevee.tables.serialization import Recorded, read_recorded, restored

DRAWN = "drawn"
CLUSTERS = "clusters"
ADAPTIVE = "adaptive"
METHODS = (DRAWN, CLUSTERS, ADAPTIVE)
CURVE = np.linspace(-6.0, 6.0, 241)
LEVEL = 0.9
_LARGEST = 1e6
"""No slope, offset, weight or score is larger; sums of larger ones are not finite."""


@dataclass(frozen=True)
class BenchmarkItems:
    """The chosen items of one benchmark, and all that a prediction from them needs."""

    benchmark: str  # its id
    digest: str  # of the data that the items belong to
    total: int  # number of items of the benchmark
    unit: float  # what a score of 1 is called
    items: tuple[str, ...]  # ids of the chosen ones
    weights: tuple[float, ...]  # by which their outcomes stand for all; they sum to one
    slope: tuple[float, ...]  # of the items' two-parameter model
    offset: tuple[float, ...]  # of it
    rest: tuple[float, ...]  # mean chance of the items that were not chosen, at abilities from -6 to 6
    mix: float  # share of the weighted mean in the estimate by clusters; the rest is the two-parameter model's
    method: str  # how the items were chosen
    error: float  # root mean squared error on held-out models, in the score's unit
    half: float  # half-width of the interval, in the score's unit
    # the same error beside those of the plain mean of as many random items, of tinyBenchmarks' anchors (their
    # weighted mean) and of gp-IRT (its even mix with the two-parameter model), and of items that are drawn
    errors: dict[str, float]
    models: int  # number of models that this was learnt from
    level: float = LEVEL  # of the interval


def _check(items: BenchmarkItems) -> None:
    """Refuse what an edited file may hold: shares that are none, lengths that differ, numbers that are none."""
    count = len(items.items)
    if not all(isinstance(key, str) for key in items.items) or len(set(items.items)) < count:
        raise ValueError(f"items of {items.benchmark!r} are no texts, or one of them comes twice")
    for name in ("weights", "slope", "offset"):
        if len(getattr(items, name)) != count:
            raise ValueError(f"{name} of {items.benchmark!r} has {len(getattr(items, name))} numbers for {count} items")
    if len(items.rest) != len(CURVE):
        raise ValueError(f"rest of {items.benchmark!r} has {len(items.rest)} numbers, expected {len(CURVE)}")
    if type(items.total) is not int or not 0 < count <= items.total:
        raise ValueError(f"total of {items.benchmark!r} is {items.total} for {count} items")
    if items.method == ADAPTIVE and count != items.total:
        raise ValueError(f"{items.benchmark!r} has {count} of {items.total} items; an adaptive test needs all")
    if not 0 < items.level < 1 or items.method not in METHODS:
        raise ValueError(
            f"{items.benchmark!r}: level {items.level}, method {items.method!r}; expected a number between 0 and 1, "
            f"and one of {', '.join(METHODS)}"
        )
    if not 0 <= items.mix <= 1:
        raise ValueError(f"mix of {items.benchmark!r} is {items.mix}, expected 0 to 1")
    numbers = (*items.weights, *items.slope, *items.offset, *items.rest, items.half, items.error, items.unit)
    if not all(abs(value) <= _LARGEST for value in numbers):
        raise ValueError(f"{items.benchmark!r} holds numbers that are not finite, or beyond {_LARGEST:g}")
    total = sum(items.weights)
    if items.half < 0 or items.unit <= 0 or min(items.weights) < 0 or not math.isclose(total, 1, rel_tol=1e-3):
        raise ValueError(
            f"{items.benchmark!r}: half {items.half}, unit {items.unit}, weights that sum to {total:g}; expected at "
            "least 0, above 0, and 1"
        )


@dataclass(frozen=True)
class ItemChoice(Recorded):
    """Items for each benchmark.

    Args:
        level: of the intervals.
        seed: of folds, draws and clusters.
        benchmarks: by id.

    Example:
        >>> from eevee import Outcomes, choose_items
        >>> from eevee.items.irt import sigmoid
        >>> generator = np.random.default_rng(0)
        >>> chance = sigmoid(np.add.outer(generator.normal(size=12), generator.normal(size=100)))
        >>> values = (generator.random(chance.shape) < chance).astype(float)
        >>> toy = Outcomes("toy", tuple(f"m{i}" for i in range(12)), tuple(f"i{j}" for j in range(100)), values)
        >>> choice = choose_items({"toy": toy}, count=10)
        >>> len(choice.benchmarks["toy"].items), choice.benchmarks["toy"].total
        (10, 100)
    """

    level: float
    seed: int
    benchmarks: dict[str, BenchmarkItems]

    @classmethod
    def from_mapping(cls, raw: Any, where: str = "items") -> ItemChoice:
        """A choice from what its JSON holds; `where` is what an `EeveeError` about another content calls it."""
        try:
            if raw.get("result") != "ItemChoice":
                raise EeveeError(f"{where}: not a result of `eevee items`")
            choice: ItemChoice = restored(cls, {key: value for key, value in raw.items() if key != "result"})
            for items in choice.benchmarks.values():
                _check(items)
            return choice
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            if isinstance(error, EeveeError):
                raise
            raise EeveeError(f"{where}: not a result of `eevee items` ({type(error).__name__}: {error})") from None


def read_items(path: str | Path) -> ItemChoice:
    """Read a choice of items back from its JSON.

    Raises:
        EeveeError: not a file that `eevee items` wrote; the message names it.

    Example:
        >>> import tempfile
        >>> from eevee import Outcomes, choose_items
        >>> from eevee.items.irt import sigmoid
        >>> generator = np.random.default_rng(0)
        >>> chance = sigmoid(np.add.outer(generator.normal(size=12), generator.normal(size=100)))
        >>> values = (generator.random(chance.shape) < chance).astype(float)
        >>> toy = Outcomes("toy", tuple(f"m{i}" for i in range(12)), tuple(f"i{j}" for j in range(100)), values)
        >>> choice = choose_items({"toy": toy}, count=10)
        >>> path = Path(tempfile.mkdtemp()) / "items.json"
        >>> text = choice.to_json(path)
        >>> read_items(path) == choice
        True
    """
    raw = read_recorded(path, "`eevee items`")
    return ItemChoice.from_mapping(raw, str(path))
