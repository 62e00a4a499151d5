"""Sample-efficiency curves (ELEVATER's figures 6 and 7), and parameters against accuracy, as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gate_runner.axes import FULL, shots_in_words
from gate_runner.charts.plot import Line, lines_chart
from gate_runner.tasks.elevater.record import Record
from gate_runner.tasks.elevater.tables import mean_over_sets, ok


def curves(records: Sequence[Record], dataset: str | None = None) -> str:
    """Score over images per class, a line for each way to adapt; without knowledge."""
    chosen = [
        record for record in ok(records) if record.cell.knowledge == "none" and dataset in (None, record.cell.dataset)
    ]
    sets = sorted({record.cell.dataset for record in chosen})
    shots = sorted({record.cell.shots for record in chosen}, key=lambda record: math.inf if record == FULL else record)
    places = {record: float(at) for at, record in enumerate(shots)}
    lines = []
    for tune, init, projection in dict.fromkeys((r.cell.tune, r.cell.init, r.cell.projection) for r in chosen):
        charts = []
        for number in shots:
            mean = mean_over_sets(
                [
                    record
                    for record in chosen
                    if record.cell.shots == number and (number == 0 or _way(record) == (tune, init, projection))
                ],
                lambda cell: True,
                sets,
            )
            if mean is not None and (number != 0 or init == "language"):
                charts.append((places[number], mean[0], mean[1] or 0.0))
        lines.append(Line(f"{'LP' if tune == 'frozen' else 'FT'} {init.capitalize()}-{projection.upper()}", charts))
    ticks = [(places[record], shots_in_words(record).removesuffix("-shot")) for record in shots]
    title = dataset or f"mean of {len(sets)} data sets"
    return lines_chart(f"Score by images per class: {title}", lines, ticks, "images per class")


def _way(record: Record) -> tuple[str, str, str]:
    return record.cell.tune, record.cell.init, record.cell.projection


def parameters(records: Sequence[Record]) -> str:
    """Mean score over trained parameters, on a logarithmic axis; a line for each number of images per class."""
    chosen = [record for record in ok(records) if record.cell.knowledge == "none" and record.cell.shots != 0]
    sets = sorted({record.cell.dataset for record in chosen})
    lines = []
    for number in sorted(
        {record.cell.shots for record in chosen}, key=lambda record: math.inf if record == FULL else record
    ):
        charts = []
        for adaptation in dict.fromkeys(map(_way, chosen)):
            mine = [record for record in chosen if record.cell.shots == number and _way(record) == adaptation]
            mean = mean_over_sets(mine, lambda cell: True, sets)
            trained = sum({record.cell.dataset: record.trained for record in mine}.values())
            if mean is not None and trained:
                charts.append((math.log10(trained), mean[0], mean[1] or 0.0))
        lines.append(Line(shots_in_words(number), sorted(charts)))
    every = [x for line in lines for x, *_ in line.points]
    ticks = [
        (float(at), f"10^{at}") for at in range(math.floor(min(every, default=0)), math.ceil(max(every, default=0)) + 1)
    ]
    return lines_chart("Score by trained parameters", lines, ticks, "trained parameters of all data sets")
