"""Ranks with intervals, and a radar of task types."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from gate_runner.charts.markup import folded, joined, note, piece, scroll, table
from gate_runner.charts.svg import chart, element, label, points, shortened
from gate_runner.reports.contents import Cell, Contents, Row
from gate_runner.tasks.registry import known_task_type

_SIZE, _RADIUS = 340.0, 80.0
_CENTRE = (_SIZE / 2, 108.0)


def task_types(contents: Contents) -> str:
    """Radars where there are three task types, and the same figures as a table; empty where nothing was run."""
    tasks = contents.tasks
    if not tasks:
        return ""
    shares = contents.shares
    figures = table(
        ["Run", *tasks],
        [[name, *(_percent(shares[name].get(task)) for task in tasks)] for name in contents.labels],
    )
    explained = "How far from chance (0) to a perfect score (100 %), mean over the benchmarks of each type."
    if len(tasks) < 3:
        return joined([note(explained), figures])
    best = {task: max((values[task] for values in shares.values() if task in values), default=0.0) for task in tasks}
    compared = best if len(contents.runs) > 1 else None
    explained += " The dashed outline is the best run on each axis." if compared else ""
    panels = [(name, "", _radar(name, tasks, shares[name], compared)) for name in contents.labels]
    return joined([note(explained), piece("panels", panels), folded("The same as a table", figures)])


def _radar(name: str, tasks: Sequence[str], shares: Mapping[str, float], best: Mapping[str, float] | None) -> str:
    body = []
    for ring in (0.25, 0.5, 0.75, 1.0):
        outline = [_corner(index, len(tasks), ring) for index in range(len(tasks))]
        body.append(element("polygon", points=points(outline), class_="ring"))
    for index, task in enumerate(tasks):
        x, y = _corner(index, len(tasks), 1.0)
        body.append(element("line", x1=_CENTRE[0], y1=_CENTRE[1], x2=x, y2=y, class_="ring"))
        far_x, far_y = _corner(index, len(tasks), 1.16)
        middle = abs(far_x - _CENTRE[0]) < 12
        anchor = "middle" if middle else "start" if far_x > _CENTRE[0] else "end"
        lift = 0 if middle and far_y < _CENTRE[1] else 8 if middle else 4
        body.append(label(known_task_type(task).label, far_x, far_y + lift, text_anchor=anchor, class_="axis"))
    if best is not None:
        outline = [_corner(index, len(tasks), _clamped(best[task])) for index, task in enumerate(tasks)]
        body.append(element("polygon", points=points(outline), class_="best"))
    outline = [_corner(index, len(tasks), _clamped(shares.get(task, 0.0))) for index, task in enumerate(tasks)]
    body.append(element("polygon", points=points(outline), class_="shape"))
    for task, (x, y) in zip(tasks, outline, strict=True):
        body.append(element("circle", cx=x, cy=y, r=3, class_="dot" if task in shares else "hole"))
    description = ", ".join(f"{task} {shares[task]:.0%}" if task in shares else f"{task} not scored" for task in tasks)
    return chart(f"{name}: from chance to perfect by task type", description, _SIZE, 216, body, class_="radar")


def _clamped(share: float) -> float:
    return min(max(share, 0.0), 1.0)


def _corner(index: int, count: int, distance: float) -> tuple[float, float]:
    angle = 2 * math.pi * index / count - math.pi / 2
    return _CENTRE[0] + _RADIUS * distance * math.cos(angle), _CENTRE[1] + _RADIUS * distance * math.sin(angle)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}".replace("-", "−")


_CELL, _LEFT = 30.0, 148.0
_LEVELS = 7
_LETTER = 6.3  # width of a letter, at most, on average


def ranks(contents: Contents) -> str:
    """The heatmap, and the same as a table; empty for one run."""
    if len(contents.runs) < 2 or not contents.rows:
        return ""
    figures = table(
        ["Benchmark", *contents.labels],
        [[row.name, *(_rank(row, name) for name in contents.labels)] for row in contents.rows],
    )
    near = any(cell.near_best for row in contents.rows for cell in row.cells.values())
    dotted = "; a dot marks what a paired test does not tell from it" if near else ""
    explained = (
        f"1 is the best value of the row{dotted}. A rank hides how large a difference is: the table of scores shows it."
    )
    drawn = scroll(_heatmap(contents), "Heatmap of ranks")
    return joined([note(explained), drawn, folded("The same as a table", figures)])


def _rank(row: Row, label: str) -> str:
    cell = row.cells.get(label)
    return str(cell.rank) if cell and cell.rank else "–"


def _heatmap(contents: Contents) -> str:
    means = contents.mean_ranks
    labels = sorted(contents.labels, key=lambda name: means.get(name, len(contents.runs)))
    longest = max(len(shortened(name, 26)) for name in labels)
    top = 24 + _LETTER * longest * 0.82
    body = []
    for column, name in enumerate(labels):
        x = _LEFT + (column + 0.5) * _CELL
        text = label(shortened(name, 26), x, top - 8, class_="axis", transform=f"rotate(-55 {x:.1f} {top - 8:.1f})")
        body.append(text)
    y = top
    for row in contents.rows:
        body.append(label(shortened(row.name, 20), _LEFT - 8, y + 19, text_anchor="end", class_="axis"))
        for column, name in enumerate(labels):
            body.append(_cell(contents, row.cells.get(name), _LEFT + column * _CELL, y))
        y += _CELL
    if means:
        y += 6
        body.append(label("mean rank", _LEFT - 8, y + 19, text_anchor="end", class_="axis strong"))
        for column, name in enumerate(labels):
            x = _LEFT + (column + 0.5) * _CELL
            body.append(label(f"{means[name]:.1f}", x, y + 19, text_anchor="middle", class_="axis strong"))
        y += _CELL
    width = _LEFT + len(labels) * _CELL + _LETTER * longest * 0.58
    listed = f"Mean ranks: {', '.join(f'{name} {means[name]:.1f}' for name in labels)}. " if means else ""
    description = f"{listed}The table of scores marks the best of each row."
    return chart(
        "Rank of each encoder on each benchmark", description, width, y + 2, body, class_="heat", width=round(width)
    )


def _cell(contents: Contents, cell: Cell | None, x: float, y: float) -> Markup:
    frame = {"x": x + 1, "y": y + 1, "width": _CELL - 2, "height": _CELL - 2, "rx": 3}
    middle = x + _CELL / 2
    if cell is None or cell.rank is None:
        sign = "×" if cell is not None and cell.reason else "–"
        return element("rect", **frame, class_="h-none") + label(
            sign, middle, y + 20, text_anchor="middle", class_="h-text-none"
        )
    level = round((cell.rank - 1) / (len(contents.runs) - 1) * (_LEVELS - 1))
    drawn = element("rect", **frame, class_=f"h{level}")
    drawn += label(str(cell.rank), middle, y + 20, text_anchor="middle", class_=f"ht{level}")
    if cell.near_best:
        drawn += element("circle", cx=x + _CELL - 6.5, cy=y + 6.5, r=2.2, class_=f"hd{level}")
    return drawn
