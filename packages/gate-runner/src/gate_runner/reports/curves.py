"""Learning curves: one panel per benchmark, a line per encoder and seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gate_runner.charts.markup import folded, joined, note, piece, table
from gate_runner.charts.plot import Line, plot
from gate_runner.reports.contents import Contents, Row
from gate_runner.reports.scores import shown_metric

COLOURED = 6


def curves(contents: Contents) -> str:
    """Panels, and the last validation of each run as a table; empty where nothing was trained."""
    colours = _coloured(contents)
    panels, ends = [], []
    for row in contents.rows:
        lines = {name: [line for line in cell.curve if len(line) > 1] for name, cell in row.cells.items()}
        lines = {name: drawn for name, drawn in lines.items() if drawn}
        if lines:
            panels.append((row.name, shown_metric(row), _panel(row, lines, colours)))
            ends.append([row.name, *(_last(row, name) for name in contents.labels)])
    if not panels:
        return ""
    entries = [(name, f"k{index}") for name, index in colours.items()]
    if len(colours) < len(contents.runs):
        entries.append((f"all others (colours: the {COLOURED} best mean ranks)", "ko"))
    explained = (
        "The headline metric on validation data while the head is trained; one line per seed. The weights that "
        "validate best are the ones tested."
    )
    watched = _watched(contents)
    if watched:
        explained += " Of a monitored training, the points are scores on test samples, of heads on the encoder then."
    names = ["Run", "step", "effective rank", "alignment ↓", "uniformity ↓"]
    return joined(
        [
            note(explained),
            piece("key", entries),
            piece("panels", panels),
            folded("The last points as a table", table(["Benchmark", *contents.labels], ends)),
            folded("Features without labels, step by step", table(names, watched)) if watched else "",
        ]
    )


def _coloured(contents: Contents) -> dict[str, int]:
    """Which runs get a colour of their own: all where there are six at most, else those of the best mean rank."""
    labels = contents.labels
    if len(labels) > COLOURED:
        labels = sorted(labels, key=lambda name: contents.mean_ranks.get(name, len(labels)))[:COLOURED]
    return {name: index for index, name in enumerate(labels)}


def _panel(row: Row, lines: Mapping[str, Sequence[Sequence[tuple[float, float]]]], colours: Mapping[str, int]) -> str:
    every = [point for drawn in lines.values() for line in drawn for point in line]
    most = max(step for step, _ in every)
    low, high = min(value for _, value in every), max(value for _, value in every)
    margin = (high - low) * 0.06 or abs(high) * 0.06 or 0.05
    low, high = low - margin, high + margin
    drawn = [
        Line(name, [(step, value, 0.0) for step, value in line], f"c{colours[name]}" if name in colours else "other")
        for name in sorted(lines, key=lambda name: -colours.get(name, COLOURED))  # grey ones lie below
        for line in lines[name]
    ]
    ends = ", ".join(f"{name} ends at {seeds[0][-1][1]:.3f}" for name, seeds in lines.items())
    title = f"{row.name}: {row.metric} on validation while training"
    up = [(value, _short(value)) for value in (low, (low + high) / 2, high)]
    return plot(title, ends, drawn, across=[(0.0, "0"), (most, f"{most:g}")], up=up, below="optimiser step")


def _watched(contents: Contents) -> list[list[str]]:
    """Geometry of the features of monitored trainings, step by step."""
    return [
        [run.label, f"{row['step']:g}", *(f"{row[name]:.3f}" for name in ("rank", "alignment", "uniformity"))]
        for run in contents.runs
        for row in next((result.training["geometry"] for result in run.results if result.training.get("monitored")), ())
    ]


def _last(row: Row, label: str) -> str:
    cell = row.cells.get(label)
    lines = [line for line in cell.curve if line] if cell else []
    return f"{sum(line[-1][1] for line in lines) / len(lines):.3f}" if lines else "–"


def _short(value: float) -> str:
    text = f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")
