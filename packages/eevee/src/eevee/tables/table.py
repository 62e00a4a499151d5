"""A table of results: models x metrics, each metric belonging to a benchmark, cells possibly missing."""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from eevee.errors import EeveeError, nearest
from eevee.tables.given import as_labels, as_number, as_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float

Direction = Literal["higher", "lower"]
SMALLEST_POOL = 5
LARGEST = 1e150
"""Of values: the squares of larger ones are not finite."""
SCALINGS = ("plain", "winsor", "rank")


@dataclass(frozen=True)
class Metric:
    """One column of results.

    Args:
        id: name, unique in the table.
        benchmark: the benchmark that it belongs to.
        direction: which is better.
        bounds: smallest and largest possible value, such as (0, 1) or (0, 100); predictions keep to them.

    Example:
        >>> Metric("voc/miou", "voc", "higher", bounds=(0.0, 100.0)).bounds
        (0.0, 100.0)
    """

    id: str
    benchmark: str
    direction: Direction
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True)
class Benchmark:
    """What is chosen or left out as a whole.

    Args:
        id: name, unique in the table.
        task: task type, which `cover` asks for.
        family: variants of one source (COCO-10k, COCO-164k), of which `one_per_family` keeps one. Its own id by
            default.
        cost: what one evaluation costs, in the user's unit (GPU hours, say); None where unknown.

    Example:
        >>> Benchmark("voc", task="segmentation", cost=1.5).cost
        1.5
    """

    id: str
    task: str = ""
    family: str = ""
    cost: float | None = None


@dataclass(frozen=True, eq=False)
class ResultTable:
    """Results of models on benchmarks; `values[i, j]` is model i on metric j, NaN where missing.

    Args:
        name: what to call the table in prints.
        models: ids of the models, unique, at least five.
        metrics: the columns.
        benchmarks: every benchmark that a metric names, in order.
        values: floats of shape (models, metrics), NaN, None or masked where missing.
        groups: one label for each model; models that share a label are near-twins and stay on one side of every
            split. Each model is its own group by default, and where its label is missing.
        families: for each model the family that it comes from, "" where unknown; what `hold_out` holds out.
        dates: for each model when it came out, as YYYY-MM-DD or its beginning, "" where unknown.
        scaling: how columns are brought to one scale, see `eevee.tables.standard`.

    Raises:
        EeveeError: ids that repeat, fewer than five models, a row or column without any value, an infinite value, a
            cost that is negative, a value outside its bounds; the message names the id.

    Example:
        >>> import numpy as np
        >>> table = ResultTable(
        ...     "toy", tuple("abcde"), (Metric("x/acc", "x", "higher"), Metric("y/loss", "y", "lower")),
        ...     (Benchmark("x"), Benchmark("y", cost=2.0)), np.arange(10.0).reshape(5, 2))
        >>> table.shape, table.benchmark_ids, table.signs.tolist()
        ((5, 2), ('x', 'y'), [1.0, -1.0])
    """

    name: str
    models: tuple[str, ...]
    metrics: tuple[Metric, ...]
    benchmarks: tuple[Benchmark, ...]
    values: Float[np.ndarray, "models metrics"]
    groups: tuple[str, ...] = field(default=())
    families: tuple[str, ...] = field(default=())
    dates: tuple[str, ...] = field(default=())
    scaling: str = "plain"

    def __post_init__(self) -> None:
        _require_unique("model", self.models)
        _require_unique("metric", [metric.id for metric in self.metrics])
        _require_unique("benchmark", [benchmark.id for benchmark in self.benchmarks])
        values = as_values(self.values, f"values of {self.name}")
        values.setflags(write=False)
        object.__setattr__(self, "values", values)
        object.__setattr__(
            self, "benchmarks", tuple(replace(b, family=b.family or b.id, cost=_cost(b)) for b in self.benchmarks)
        )
        for name in ("models", "metrics"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("families", "dates"):
            object.__setattr__(self, name, as_labels(getattr(self, name), name))
        groups = as_labels(self.groups, "groups")
        if len(groups) == len(self.models):  # a model without a label is alone
            groups = tuple(label or model for label, model in zip(groups, self.models, strict=True))
        object.__setattr__(self, "groups", groups or self.models)
        if values.shape != (len(self.models), len(self.metrics)):
            raise EeveeError(
                f"values have the shape {values.shape}; expected {(len(self.models), len(self.metrics))} "
                f"(models, metrics)"
            )
        if len(self.groups) != len(self.models):
            raise EeveeError(f"{len(self.groups)} group labels for {len(self.models)} models; expected one for each")
        for label, values_of in (("families", self.families), ("dates", self.dates)):
            if values_of and len(values_of) != len(self.models):
                raise EeveeError(f"{len(values_of)} {label} for {len(self.models)} models; expected one for each")
        if self.scaling not in SCALINGS:
            raise EeveeError(f"scaling {self.scaling!r}; expected one of {', '.join(SCALINGS)}")
        if len(self.models) < SMALLEST_POOL:
            count = len(self.models)
            raise EeveeError(f"the table has {count} model{'s' * (count != 1)}; expected at least {SMALLEST_POOL}")
        if np.isinf(values).any():
            row, column = (int(i) for i in np.argwhere(np.isinf(values))[0])
            raise EeveeError(f"model {self.models[row]!r}, metric {self.metrics[column].id!r}: the value is infinite")
        if np.nanmax(np.abs(values), initial=0.0) > LARGEST:
            row, column = (int(i) for i in np.argwhere(np.abs(values) > LARGEST)[0])
            raise EeveeError(
                f"model {self.models[row]!r}, metric {self.metrics[column].id!r}: the value is "
                f"{values[row, column]:g}, whose square is not finite"
            )
        for label, ids, empty in (
            ("model", self.models, np.isnan(values).all(axis=1)),
            ("metric", tuple(metric.id for metric in self.metrics), np.isnan(values).all(axis=0)),
        ):
            if empty.any():
                raise EeveeError(f"{label} {ids[int(np.argmax(empty))]!r} has no value at all; leave it out")
        for metric in self.metrics:
            if metric.direction not in ("higher", "lower"):
                raise EeveeError(f"metric {metric.id!r}: direction {metric.direction!r}; expected 'higher' or 'lower'")
            _require_bounds(metric, self.models, values[:, self.metrics.index(metric)])
        listed = {benchmark.id for benchmark in self.benchmarks}
        named = {metric.benchmark for metric in self.metrics}
        if listed != named:
            raise EeveeError(f"benchmarks and metrics do not match: {sorted(listed ^ named)}")
        for benchmark in self.benchmarks:
            if benchmark.cost is not None and not (math.isfinite(benchmark.cost) and benchmark.cost >= 0):
                raise EeveeError(f"benchmark {benchmark.id!r}: cost {benchmark.cost}; expected a finite number >= 0")

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of models and metrics."""
        return len(self.models), len(self.metrics)

    @property
    def benchmark_ids(self) -> tuple[str, ...]:
        """Ids of the benchmarks, in the table's order."""
        return tuple(benchmark.id for benchmark in self.benchmarks)

    @property
    def metric_ids(self) -> tuple[str, ...]:
        """Ids of the metrics, in the table's order."""
        return tuple(metric.id for metric in self.metrics)

    @property
    def columns(self) -> dict[str, tuple[int, ...]]:
        """For each benchmark id, the positions of its metrics."""
        positions: dict[str, list[int]] = {benchmark.id: [] for benchmark in self.benchmarks}
        for position, metric in enumerate(self.metrics):
            positions[metric.benchmark].append(position)
        return {key: tuple(value) for key, value in positions.items()}

    @property
    def costs(self) -> dict[str, float]:
        """Cost of each benchmark.

        Raises:
            EeveeError: a benchmark has no cost; the message names it.
        """
        costs = {}
        for benchmark in self.benchmarks:
            if benchmark.cost is None:
                raise EeveeError(f"benchmark {benchmark.id!r} has no cost; give a cost for every benchmark")
            costs[benchmark.id] = benchmark.cost
        return costs

    @property
    def signs(self) -> Float[np.ndarray, " metrics"]:
        """+1 where higher is better, -1 where lower is."""
        return np.array([1.0 if metric.direction == "higher" else -1.0 for metric in self.metrics])

    @property
    def hash(self) -> str:
        """SHA-256 of everything in the table except its name: what a result records, and is checked against."""
        content: dict[str, object] = {
            "models": self.models,
            "groups": self.groups,
            "metrics": [(m.id, m.benchmark, m.direction) for m in self.metrics],
            "benchmarks": [(b.id, b.task, b.family, b.cost) for b in self.benchmarks],
            "values": [[None if math.isnan(v) else repr(float(v)) for v in row] for row in self.values],
        }
        content |= {  # only where there are any, so that tables without keep the hash that they had
            key: part
            for key, part in (
                ("bounds", [m.bounds for m in self.metrics] if any(m.bounds for m in self.metrics) else None),
                ("families", self.families if any(self.families) else None),
                ("dates", self.dates if any(self.dates) else None),
                ("scaling", self.scaling if self.scaling != "plain" else None),
            )
            if part is not None
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def to_frame(self) -> Any:  # pandas has no types of its own
        """As a pandas frame, models by metrics, which `load_table` takes.

        Raises:
            EeveeError: pandas is not installed; names the extra.

        Example:
            >>> from eevee import load_table
            >>> load_table("gate").to_frame().loc["clip", "mini/acc1"]  # doctest: +SKIP
        """
        from eevee.tables.frames import frame_of

        rows = [dict(zip(self.metric_ids, row, strict=True)) for row in self.values.tolist()]
        return frame_of(rows).set_axis(list(self.models)).rename_axis("model")

    def positions(self, benchmarks: Sequence[str]) -> tuple[int, ...]:
        """Sorted positions of benchmark ids.

        Raises:
            EeveeError: an id that the table does not have, or one given twice.
        """
        benchmarks = list(benchmarks)
        _require_unique("benchmark", benchmarks)
        index = {key: i for i, key in enumerate(self.benchmark_ids)}
        for key in benchmarks:
            if key not in index:
                raise EeveeError(f"unknown benchmark {key!r}; {nearest(key, self.benchmark_ids)}")
        return tuple(sorted(index[key] for key in benchmarks))

    def with_costs(self, costs: Mapping[str, float]) -> ResultTable:
        """The table with these costs; benchmarks that are not named keep theirs."""
        self.positions(list(costs.keys()))
        return replace(self, benchmarks=tuple(replace(b, cost=costs.get(b.id, b.cost)) for b in self.benchmarks))

    def with_groups(self, groups: Sequence[str]) -> ResultTable:
        """The table with these group labels, one for each model."""
        return replace(self, groups=as_labels(groups, "groups"))

    def with_bounds(self, bounds: tuple[float, float] | None) -> ResultTable:
        """The table with these bounds for every metric that has none."""
        return replace(self, metrics=tuple(m if m.bounds else replace(m, bounds=bounds) for m in self.metrics))

    def with_scaling(self, scaling: str) -> ResultTable:
        """The table with another scaling of its columns, see `eevee.tables.standard`."""
        return replace(self, scaling=scaling)


def _cost(benchmark: Benchmark) -> float | None:
    """A benchmark's cost as a number, None where there is none."""
    cost = as_number(benchmark.cost, f"benchmark {benchmark.id!r}: cost")
    return None if math.isnan(cost) else cost


def require_table(table: object) -> None:
    """Refuse anything but a table: a name or a path is what most give first."""
    if not isinstance(table, ResultTable):
        raise EeveeError(f"table is {table!r:.60}; expected a table: load_table(name or file)")


def _require_bounds(metric: Metric, models: Sequence[str], column: Float[np.ndarray, " models"]) -> None:
    if metric.bounds is None:
        return
    where = f"metric {metric.id!r}: bounds {metric.bounds!r:.60}"
    if len(metric.bounds) != 2:
        raise EeveeError(f"{where}; expected two finite numbers, low first")
    low, high = (as_number(end, where) for end in metric.bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise EeveeError(f"metric {metric.id!r}: bounds {low:g} to {high:g}; expected two finite numbers, low first")
    with np.errstate(invalid="ignore"):
        broken = (column < low) | (column > high)
    if broken.any():
        row = int(np.argmax(broken))
        raise EeveeError(
            f"model {models[row]!r}, metric {metric.id!r}: {column[row]:g} is outside its bounds {low:g} to {high:g}"
        )


def _require_unique(kind: str, ids: Sequence[str]) -> None:
    earlier: set[str] = set()
    by_look: dict[str, str] = {}
    for key in ids:
        if not key:
            raise EeveeError(f"a {kind} has an empty id")
        if len(key.splitlines()) > 1:
            raise EeveeError(f"{kind} {key!r} has a line break in its id")
        if key in earlier:
            raise EeveeError(f"{kind} {key!r} appears twice; ids must be unique")
        same = by_look.setdefault(_as_seen(key), key)
        if same != key:
            raise EeveeError(f"{kind}s {same!a} and {key!a} look the same; expected one of them, or names that differ")
        earlier.add(key)


def _as_seen(text: str) -> str:
    """The text in composed letters, without signs that nobody sees."""
    composed = unicodedata.normalize("NFC", text)
    return "".join(sign for sign in composed if unicodedata.category(sign) != "Cf")
