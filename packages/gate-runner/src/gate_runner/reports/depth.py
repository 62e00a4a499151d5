"""Read-outs over depth: what each block was worth to a task, and which one was chosen."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from gate_runner.charts.markup import folded, note, table
from gate_runner.charts.svg import chart, element, label, points
from gate_runner.readouts import Readout
from gate_runner.reports.contents import Contents
from gate_runner.runs.results import Result

_WIDTH, _HEIGHT = 260.0, 168.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 38.0, 230.0, 12.0, 132.0


def over_depth(contents: Contents) -> str:
    """A panel for each result that chose its read-out, and all figures as tables; empty where none did."""
    panels, tables = [], []
    for run in contents.runs:
        for result in run.results:
            about = result.training.get("readout")
            if not isinstance(about, Mapping) or len(about["worth"]) < 2:
                continue
            named = f"{run.label}: {result.name}" + (f", seed {result.seed}" if len(run.named(result.name)) > 1 else "")
            panels.append(f"<figure><figcaption>{escape(named)}</figcaption>{_panel(result, about)}</figure>")
            tables.append(folded(named, _figures(result, about)))
    if not panels:
        return ""
    said = (
        "How well each block does on training and validation samples, each left out once; the large point was chosen, "
        "the dashed line is the last output. Lines: class token, mean of places, both. Test labels choose nothing."
    )
    return note(said) + f'<div class="grid">{"".join(panels)}</div>' + "".join(tables)


def _panel(result: Result, about: Mapping[str, Any]) -> str:
    worth = {Readout.parse(name): float(value) for name, value in about["worth"].items()}
    low, high = min(worth.values()), max(worth.values())
    depth = max((int(one.place[6:]) for one in worth if one.pooling), default=1)

    def place(block: float, value: float) -> tuple[float, float]:
        across = _LEFT + (_RIGHT - _LEFT) * (block - 1) / max(1, depth - 1)
        return across, _BOTTOM - (_BOTTOM - _TOP) * (value - low) / ((high - low) or 1.0)

    body = [element("line", x1=_LEFT, y1=_BOTTOM, x2=_RIGHT, y2=_BOTTOM, class_="ring")]
    for value, at in ((low, _BOTTOM), (high, _TOP)):
        body.append(label(f"{value:.2f}", _LEFT - 5, at + 4, text_anchor="end", class_="axis"))
    for block in sorted({1, depth}):
        body.append(label(str(block), place(block, low)[0], _BOTTOM + 16, text_anchor="middle", class_="axis"))
    body.append(label("block", (_LEFT + _RIGHT) / 2, _BOTTOM + 30, text_anchor="middle", class_="axis"))
    last = place(1, worth[Readout("last")])[1]
    body.append(element("line", x1=_LEFT, x2=_RIGHT, y1=last, y2=last, class_="ring", stroke_dasharray="4 3"))
    lines: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for one, value in worth.items():
        if one.pooling:
            lines.setdefault((one.pooling, one.norm), []).append((int(one.place[6:]), value))
    for number, (key, line) in enumerate(sorted(lines.items())):
        hint = element("title", escape(" ".join(filter(None, key))))
        drawn = [place(*point) for point in sorted(line)]
        body.append(element("polyline", hint, points=points(drawn), class_=f"line c{number % 6}"))
        for across, down in drawn:
            body.append(element("circle", cx=across, cy=down, r=2.0, class_=f"line c{number % 6}"))
    chosen = Readout.parse(str(about["chosen"]))
    block = int(chosen.place[6:]) if chosen.pooling else depth
    across, down = place(block, worth[chosen])
    body.append(element("circle", cx=across, cy=down, r=5.0, class_="line c0", style="fill:currentColor"))
    said = ", ".join(f"{one.name} {value:.3f}" for one, value in worth.items())
    return chart(f"{result.name}: worth of read-outs over depth", said, _WIDTH, _HEIGHT, body, class_="curve")


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
