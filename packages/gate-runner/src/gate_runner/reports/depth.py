"""Read-outs over depth: what each block was worth to a task, and which one was chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gate_runner.charts.markup import folded, joined, note, piece, table
from gate_runner.charts.plot import Dot, Line, plot
from gate_runner.readouts import Readout
from gate_runner.reports.contents import Contents
from gate_runner.runs.results import Result


def over_depth(contents: Contents) -> str:
    """A panel for each result that chose its read-out, and all figures as tables; empty where none did."""
    panels, tables = [], []
    for run in contents.runs:
        for result in run.results:
            about = result.training.get("readout")
            if not isinstance(about, Mapping) or len(about["worth"]) < 2:
                continue
            seeded = f", seed {result.seed}" if len(run.named(result.name)) > 1 else ""
            name = f"{run.label}: {result.name}{seeded}"
            panels.append((name, _gained(about), _panel(result, about)))
            tables.append(folded(name, _figures(result, about)))
    if not panels:
        return ""
    explained = (
        "How well each block does on training and validation samples, each left out once; the large point was chosen, "
        "the dashed line is the last output. Lines: class token, mean of places, both. Test labels choose nothing. "
        "The gain on the last output is of the samples that chose, and so a little too good."
    )
    return joined([note(explained), piece("panels", panels), *tables])


def _gained(about: Mapping[str, Any]) -> str:
    """What the chosen read-out gains on the last output, on the samples that chose it, with its paired interval."""
    if "against_last" not in about:
        return ""
    gain, low, high = (100 * float(value) for value in about["against_last"])
    return f"{gain:+.1f} points on the last output ({low:+.1f} to {high:+.1f})".replace("-", "−")


def _panel(result: Result, about: Mapping[str, Any]) -> str:
    worth = {Readout.parse(name): float(value) for name, value in about["worth"].items()}
    low, high = min(worth.values()), max(worth.values())
    depth = max((readout.block for readout in worth if readout.pooling), default=1)
    by_pooling: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for readout, value in worth.items():
        if readout.pooling:
            by_pooling.setdefault((readout.pooling, readout.norm), []).append((float(readout.block), value, 0.0))
    lines = [
        Line(" ".join(filter(None, pooling)), sorted(line), f"c{number % 6}", dots=True)
        for number, (pooling, line) in enumerate(sorted(by_pooling.items()))
    ]
    chosen = Readout.parse(str(about["chosen"]))
    dot = Dot(float(chosen.block if chosen.pooling else depth), worth[chosen], chosen.name, 5.0)
    description = ", ".join(f"{readout.name} {value:.3f}" for readout, value in worth.items())
    return plot(
        f"{result.name}: worth of read-outs over depth",
        description,
        lines,
        [dot],
        across=[(float(block), str(block)) for block in sorted({1, depth})],
        up=[(low, f"{low:.2f}"), (high, f"{high:.2f}")],
        below="block",
        level=worth[Readout("last")],
    )


def _figures(result: Result, about: Mapping[str, Any]) -> str:
    """Worth of each read-out, and its score on the test split where all were asked for."""
    metric = result.scores[0].metric if result.scores else ""
    tested = {str(row["readout"]): row for row in about.get("tested", ())}
    rows = []
    for name, value in about["worth"].items():
        row = tested.get(name)
        score = [f"{row[metric]:.3f}", f"{row['low']:.3f}–{row['high']:.3f}"] if row else []
        rows.append([f"{name}{' (chosen)' if name == about['chosen'] else ''}", f"{value:.3f}", *score])
    heads = ["Read-out", "worth without test labels", *([f"test {metric}", "95 % CI"] if tested else [])]
    return table(heads, rows)
