"""torchgeo-bench's long CSV: a row for each data set, model, method and metric, with an interval.

Source: ``results/all_results.csv`` in torchgeo/torchgeo-bench.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from gate_runner.errors import DataError
from gate_runner.importing.entry import Entry, Reading, Rows, direction_of, interval, named, number, score, whole

_NEEDED = ("dataset", "method", "metric_name", "metric_value", "name")
_VARIANTS = ("bands", "normalization", "image_size", "interpolation", "partition", "c_range_stop")
_COSTS = "cost of a profile, not a score"
_LEFT_OUT = {"profile": _COSTS, "intrinsic_dim": "dimension of features, not a score"}


def is_csv(header: Iterable[str]) -> bool:
    """Whether a header is that of the long table."""
    return set(_NEEDED) <= set(header)


def read_csv(rows: Rows, path: str) -> Reading:
    """Read every score; what varies between rows of a model (bands, normalization, size) becomes part of its name."""
    reading = Reading("torchgeo-bench")
    listed = list(rows)
    varied: dict[str, dict[str, set[str]]] = {}
    for _, row in listed:
        seen = varied.setdefault(row["name"], {})
        for column in _VARIANTS:
            seen.setdefault(column, set()).add(_plain(row.get(column, "")))
    for line, row in listed:
        place = f"line {line}"
        if row["method"] in _LEFT_OUT:
            reading.skip(place, _LEFT_OUT[row["method"]])
            continue
        if not row["name"] or not row["dataset"]:
            raise DataError(
                f"{path}, {place}: the {'data set' if row['name'] else 'model'} is empty; expected its name"
            )
        value = score(row["metric_value"], row["metric_name"], f"{path}, {place}, metric_value")
        if value is None:
            reading.skip(place, "no score")
            continue
        ends = [number(row.get(column, ""), f"{path}, {place}, {column}") for column in ("ci_lower", "ci_upper")]
        low, high = (math.nan if end is None else end for end in ends)
        low, high = (math.nan, math.nan) if low == high == 0 != value else interval(low, high, f"{path}, {place}")
        samples = whole(row.get("n_test", ""), f"{path}, {place}, n_test", -1)
        ways = [_plain(row[column]) for column in _VARIANTS if len(varied[row["name"]][column]) > 1]
        label = f"{row['name']} ({', '.join(filter(None, ways))})" if any(ways) else row["name"]
        benchmark = f"{row['dataset']}@{row['method']}" if row["method"] else row["dataset"]
        metric = "acc@1" if row["metric_name"] == "accuracy" else row["metric_name"]
        reading.entries.append(
            Entry(
                named(label, f"{path}, {place}, name"),
                named(benchmark, f"{path}, {place}, dataset"),
                "image-classification" if metric == "acc@1" else "multi-label",
                named(metric, f"{path}, {place}, metric_name", "unknown"),
                value,
                place,
                direction_of(metric),
                low,
                high,
                whole(row.get("seed", ""), f"{path}, {place}, seed", 0),
                None if samples < 0 else samples,
            )
        )
    return reading


def _plain(text: str) -> str:
    """Return a cell without the ``.0`` of a whole number, which files have here and there."""
    return text.removesuffix(".0")
