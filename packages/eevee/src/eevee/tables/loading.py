"""Loading a table from wherever it is: shipped, a CSV file, a data frame, or several."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eevee.errors import EeveeError
from eevee.tables.reading import BENCHMARK_NAMES, MODEL_NAMES, read_csv_text, read_text
from eevee.tables.table import ResultTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eevee.tables.reading import Layout

SHIPPED = {"gate": "gate_main.csv", "gate-full": "gate_full.csv", "mieb": "mieb.csv.gz"}


def _shipped(name: str) -> ResultTable:
    data = files("eevee.tables").joinpath("data")
    raw = data.joinpath(SHIPPED[name]).read_bytes()
    text = (gzip.decompress(raw) if SHIPPED[name].endswith(".gz") else raw).decode("utf-8")
    models = data.joinpath("mieb_models.csv").read_text(encoding="utf-8") if name == "mieb" else None
    return read_csv_text(text, name=name, models=models)


def load_table(
    source: Any,
    *,
    direction: str | None = None,
    about: str | Path | None = None,
    models: str | Path | None = None,
    layout: Layout | None = None,
    bounds: tuple[float, float] | None = None,
) -> ResultTable:
    """Load a table: a shipped name, a CSV file or a data frame.

    Args:
        source: `gate`, `gate-full`, `mieb`, the path of a CSV file (see `read_csv_text` for the shapes), a pandas data
            frame with the same columns (or with the models as its index), or a `ResultTable`.
        direction: `higher` or `lower` for metrics that do not say theirs.
        about: path of a CSV with columns `metric` or `benchmark`, and `direction`, `cost`, `task`, `family`, `low`,
            `high`.
        models: path of a CSV with column `model`, and `group`, `model_family`, `model_date`.
        layout: what the columns are (`eevee.tables.reading.Layout`), where neither their names nor their content tell.
        bounds: smallest and largest possible value of metrics that do not say theirs, such as (0, 100).

    Raises:
        EeveeError: naming the file, line, column and value that is wrong.

    Example:
        >>> load_table("gate").shape
        (21, 30)

    Source: `gate` (30 headline metrics) and `gate-full` (175 metrics): 21 models of the EEVEE/GATE paper, tables 2 and
        3, where iWildCam's error and ACDC's dice are rescaled so that higher is better; Cityscapes is only in the full
        table, as in the paper's figure 3. `mieb`: 42 embedding models on the 132 image tasks of MIEB, one headline
        metric each, shares of one, from the results repository of the Massive Text Embedding Benchmark
        (embeddings-benchmark/results at f4cc6c8, CC0), task types from embeddings-benchmark/mteb; the cost of a task is
        the median of the models' seconds on it, and families of models are ours, by who trained what on which data.
    """
    if isinstance(source, ResultTable):
        table = source
    elif not hasattr(source, "columns") and str(source) in SHIPPED and not Path(source).exists():
        table = _shipped(str(source))
    else:
        text, name, where = _text_of(source, layout)
        extra, model_lines = (None if path is None else read_text(Path(path)) for path in (about, models))
        table = read_csv_text(
            text, name=name, where=where, direction=direction, about=extra, models=model_lines, layout=layout
        )
    return table.with_bounds(bounds) if bounds else table


def _text_of(source: Any, layout: Layout | None) -> tuple[str, str, str]:
    """A file's or a data frame's table as CSV, its name, and what errors call it."""
    if not hasattr(source, "to_csv"):
        if not isinstance(source, str | PathLike):
            raise EeveeError(
                f"table is a {type(source).__name__}; expected a name, a file, a data frame or a ResultTable"
            )
        path = Path(source)
        if not path.exists() and path.name == str(source) and not path.suffix:
            raise EeveeError(f"no file and no shipped table {str(source)!r}; there are {', '.join(SHIPPED)}")
        return read_text(path), path.name, str(source)
    if not hasattr(source, "columns"):
        raise EeveeError("table is one column; expected a data frame of models by benchmarks")
    if source.columns.nlevels > 1:  # benchmarks and their metrics
        source = source.set_axis(["/".join(map(str, names)) for names in source.columns], axis=1)
    known = (*MODEL_NAMES, *BENCHMARK_NAMES)
    if any(str(name).lower() in known for name in source.index.names):
        source = source.reset_index()
    columns = {str(name).lower() for name in source.columns}
    counted = source.index.nlevels == 1 and list(source.index[:3]) == [0, 1, 2]
    if columns & {"model", "benchmark"} or layout is not None or (counted and columns & set(MODEL_NAMES)):
        return source.to_csv(index=False), "data frame", "data frame"
    if source.index.nlevels > 1:
        source = source.set_axis([" ".join(map(str, names)) for names in source.index])
    return source.rename_axis("model").to_csv(), "data frame", "data frame"


def join_tables(tables: Sequence[ResultTable]) -> ResultTable:
    """One table of several boards: all their models, and nothing where a model is not on a board.

    Raises:
        EeveeError: a benchmark in more than one, no model in all of them, or tables that give one model another group,
            family or date, or are scaled in another way.
    """
    if len(tables) == 1:
        return tables[0]
    benchmarks = [key for table in tables for key in table.benchmark_ids]
    if twice := sorted({key for key in benchmarks if benchmarks.count(key) > 1}):
        raise EeveeError(f"{len(tables)} tables: {', '.join(twice)} are in more than one; expected each in one alone")
    models = tuple(dict.fromkeys(model for table in tables for model in table.models))
    shared = set(models).intersection(*(table.models for table in tables))
    names = ", ".join(table.name for table in tables)
    if not shared:
        raise EeveeError(
            f"{names}: no model is in all of these tables, so nothing compares the models of one with another's"
        )
    if len(scalings := sorted({table.scaling for table in tables})) > 1:
        raise EeveeError(f"{names}: scaled in ways {', '.join(scalings)}; expected one for all")
    groups = _joined("group", models, [(table.models, table.groups) for table in tables])
    families = _joined("family", models, [(table.models, table.families) for table in tables])
    dates = _joined("date", models, [(table.models, table.dates) for table in tables])
    values = np.full((len(models), sum(len(table.metrics) for table in tables)), np.nan)
    column = 0
    for table in tables:
        rows = [models.index(model) for model in table.models]
        values[rows, column : column + len(table.metrics)] = table.values
        column += len(table.metrics)
    return ResultTable(
        f"{names} ({len(shared)} of {len(models)} models in all of them)",
        models,
        tuple(metric for table in tables for metric in table.metrics),
        tuple(benchmark for table in tables for benchmark in table.benchmarks),
        values,
        tuple(groups[model] or model for model in models),
        tuple(families.values()) if any(families.values()) else (),
        tuple(dates.values()) if any(dates.values()) else (),
        scalings[0],
    )


def _joined(kind: str, models: Sequence[str], parts: Sequence[tuple[Sequence[str], Sequence[str]]]) -> dict[str, str]:
    """What any of the tables says of each model, "" where none does; a model alone in its group has none."""
    labels_of = dict.fromkeys(models, "")
    for names, labels in parts:
        for model, label in zip(names, labels, strict=False):
            if not label or (kind == "group" and label == model):
                continue
            if labels_of[model] not in ("", label):
                raise EeveeError(
                    f"model {model!r} has the {kind} {labels_of[model]!r} in one table and {label!r} in another"
                )
            labels_of[model] = label
    return labels_of


@dataclass(frozen=True)
class Published:
    """What the paper published about its own search."""

    single_order: tuple[str, ...]  # benchmarks by their error alone, best first (figure 3)
    # for each k, the best combination (figures 4, 6, 7, 8); partial from k = 23 on
    combinations: dict[int, tuple[str, ...]]
    tiers: dict[str, tuple[str, ...]]  # for each tier its benchmarks (figure 4)
    gpu_hours: dict[str, float]  # for each tier its A100 hours (section 9)


@cache
def published() -> Published:
    """Read the paper's published combinations and tiers.

    **The small tier scores like a random subset on the shipped table**: by ridge, 70 % of random subsets of eight have
    a lower error (`benchmarks/reproduce_gate.py`; REPRODUCTION.md has all tiers). The paper's unrounded data and its
    splits are not public, so this refutes nothing, but choose the tier knowingly.

    Example:
        >>> published().tiers["small"][:2], published().gpu_hours["small"]
        (('cifar100', 'cubirds'), 12.0)
    """
    text = files("eevee.tables").joinpath("data", "gate_published.json").read_text(encoding="utf-8")
    raw = json.loads(text)
    return Published(
        single_order=tuple(raw["single_order"]),
        combinations={int(k): tuple(v["benchmarks"]) for k, v in raw["combinations"].items() if v["complete"]},
        tiers={name: tuple(tier["benchmarks"]) for name, tier in raw["tiers"].items()},
        gpu_hours={name: float(tier["gpu_hours"]) for name, tier in raw["tiers"].items()},
    )
