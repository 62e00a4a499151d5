"""ELEVATER's tables and figures in the report of a run that holds a sweep, figures as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gate_runner.axes import shots_in_words
from gate_runner.charts.markup import folded
from gate_runner.charts.plot import Line, lines_chart
from gate_runner.tasks.elevater.record import Record, records_of
from gate_runner.tasks.elevater.tables import all_tables, grouped, having, in_order, mean_over_sets, ok
from gate_runner.tasks.task import Overview, ScoredRun

_WAY = ("tune", "init", "projection")


def overview(runs: Sequence[ScoredRun]) -> Overview:
    """Every table and figure of each run that holds units of a sweep, under the run's name where there are several."""
    swept = [(run.label, records) for run in runs if (records := records_of(run.results))]
    tables, figures = [], []
    for label, records in swept:
        for table in all_tables(records):
            title = f"{label}: {table.title}" if len(swept) > 1 else table.title
            tables.append(replace(table, title=title, id=f"{label}-{table.id}" if len(swept) > 1 else table.id))
        figures += drawn(records)
    return Overview(tables, figures)


def drawn(records: Sequence[Record]) -> list[str]:
    """Sample efficiency over all data sets and of each, and parameters against scores (figures 6 and 7), as SVG."""
    charts = [curves(records, name) for name in dict.fromkeys(record.cell.dataset for record in records)]
    return [figure for figure in (
        curves(records), parameters(records), folded("Each data set", "".join(charts)) if any(charts) else "",
    ) if figure]  # fmt: skip


def curves(records: Sequence[Record], dataset: str | None = None) -> str:
    """Score over images per class, a line for each way to adapt; without knowledge."""
    chosen = having(ok(records), knowledge="none", **({} if dataset is None else {"dataset": dataset}))
    sets = sorted({record.cell.dataset for record in chosen})
    shots = sorted({record.cell.shots for record in chosen}, key=in_order)
    lines = []
    for way, cells in grouped(chosen, *_WAY).items():
        tune, init, projection = way
        charts = []
        for place, number in enumerate(shots):
            mean = mean_over_sets(having(chosen if number == 0 else cells, shots=number), sets)
            if mean is not None and (number != 0 or init == "language"):
                charts.append((float(place), mean[0], mean[1] or 0.0))
        lines.append(Line(f"{'LP' if tune == 'frozen' else 'FT'} {init.capitalize()}-{projection.upper()}", charts))
    ticks = [(float(place), shots_in_words(number).removesuffix("-shot")) for place, number in enumerate(shots)]
    title = dataset or f"mean of {len(sets)} data sets"
    return lines_chart(f"Score by images per class: {title}", lines, ticks, "images per class")


def parameters(records: Sequence[Record]) -> str:
    """Mean score over trained parameters, on a logarithmic axis; a line for each number of images per class."""
    chosen = [record for record in ok(having(records, knowledge="none")) if record.cell.shots != 0]
    sets = sorted({record.cell.dataset for record in chosen})
    lines = []
    for number in sorted({record.cell.shots for record in chosen}, key=in_order):
        charts = []
        for cells in grouped(having(chosen, shots=number), *_WAY).values():
            mean = mean_over_sets(cells, sets)
            trained = sum({record.cell.dataset: record.trained for record in cells}.values())
            if mean is not None and trained:
                charts.append((math.log10(trained), mean[0], mean[1] or 0.0))
        lines.append(Line(shots_in_words(number), sorted(charts)))
    every = [x for line in lines for x, *_ in line.points]
    powers = range(math.floor(min(every, default=0)), math.ceil(max(every, default=0)) + 1)
    ticks = [(float(power), f"10^{power}") for power in powers]
    return lines_chart("Score by trained parameters", lines, ticks, "trained parameters of all data sets")
