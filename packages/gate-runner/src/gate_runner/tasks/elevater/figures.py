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
    chosen = [one for one in ok(records) if one.cell.knowledge == "none" and dataset in (None, one.cell.dataset)]
    sets = sorted({one.cell.dataset for one in chosen})
    shots = sorted({one.cell.shots for one in chosen}, key=lambda one: math.inf if one == FULL else one)
    places = {one: float(at) for at, one in enumerate(shots)}
    lines = []
    for tune, init, projection in dict.fromkeys((r.cell.tune, r.cell.init, r.cell.projection) for r in chosen):
        found = []
        for number in shots:
            mean = mean_over_sets(
                [
                    one
                    for one in chosen
                    if one.cell.shots == number and (number == 0 or _way(one) == (tune, init, projection))
                ],
                lambda cell: True,
                sets,
            )
            if mean is not None and (number != 0 or init == "language"):
                found.append((places[number], mean[0], mean[1] or 0.0))
        lines.append(Line(f"{'LP' if tune == 'frozen' else 'FT'} {init.capitalize()}-{projection.upper()}", found))
    ticks = [(places[one], shots_in_words(one).removesuffix("-shot")) for one in shots]
    what = dataset or f"mean of {len(sets)} data sets"
    return lines_chart(f"Score by images per class: {what}", lines, ticks, "images per class")


def _way(record: Record) -> tuple[str, str, str]:
    return record.cell.tune, record.cell.init, record.cell.projection


def parameters(records: Sequence[Record]) -> str:
    """Mean score over trained parameters, on a logarithmic axis; a line for each number of images per class."""
    chosen = [one for one in ok(records) if one.cell.knowledge == "none" and one.cell.shots != 0]
    sets = sorted({one.cell.dataset for one in chosen})
    lines = []
    for number in sorted({one.cell.shots for one in chosen}, key=lambda one: math.inf if one == FULL else one):
        found = []
        for way in dict.fromkeys(map(_way, chosen)):
            mine = [one for one in chosen if one.cell.shots == number and _way(one) == way]
            mean = mean_over_sets(mine, lambda cell: True, sets)
            trained = sum({one.cell.dataset: one.trained for one in mine}.values())
            if mean is not None and trained:
                found.append((math.log10(trained), mean[0], mean[1] or 0.0))
        lines.append(Line(shots_in_words(number), sorted(found)))
    every = [x for line in lines for x, *_ in line.points]
    ticks = [
        (float(at), f"10^{at}") for at in range(math.floor(min(every, default=0)), math.ceil(max(every, default=0)) + 1)
    ]
    return lines_chart("Score by trained parameters", lines, ticks, "trained parameters of all data sets")
