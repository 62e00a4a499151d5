"""ELEVATER's tables and figures in the report of a run that holds a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gate_runner.charts.markup import folded
from gate_runner.tasks.elevater.figures import curves, parameters
from gate_runner.tasks.elevater.record import Record, records_of
from gate_runner.tasks.elevater.tables import all_tables
from gate_runner.tasks.task import Overview, ScoredRun


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
