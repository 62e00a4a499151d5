"""Task types: one radar per encoder, side by side, how far from chance to perfect on each, and the figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gate_runner.charts.markup import folded, joined, note, piece, table
from gate_runner.charts.svg import chart, element, label, points
from gate_runner.reports.contents import Contents
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
