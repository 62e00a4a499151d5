"""Ranks as a heatmap: benchmarks down, encoders across, the best on the left."""

from __future__ import annotations

from gate_runner.charts.svg import chart, element, label, shortened
from gate_runner.reports.contents import Contents

_CELL, _LEFT = 30.0, 148.0
_LEVELS = 7
_LETTER = 6.3  # width of a letter, at most, on average


def heatmap(contents: Contents) -> str:
    """The ranks of all runs on all benchmarks; empty for one run."""
    if len(contents.runs) < 2:
        return ""
    labels = sorted(contents.labels, key=lambda name: contents.mean_ranks.get(name, len(contents.runs)))
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
    if contents.mean_ranks:
        y += 6
        body.append(label("mean rank", _LEFT - 8, y + 19, text_anchor="end", class_="axis strong"))
        for column, name in enumerate(labels):
            x = _LEFT + (column + 0.5) * _CELL
            body.append(
                label(f"{contents.mean_ranks[name]:.1f}", x, y + 19, text_anchor="middle", class_="axis strong")
            )
        y += _CELL
    width = _LEFT + len(labels) * _CELL + _LETTER * longest * 0.58
    said = (
        f"Mean ranks: {', '.join(f'{name} {contents.mean_ranks[name]:.1f}' for name in labels)}. "
        if contents.mean_ranks
        else ""
    ) + "The table of scores marks the best of each row."
    return chart("Rank of each encoder on each benchmark", said, width, y + 2, body, class_="heat", width=round(width))


def _cell(contents: Contents, cell: object, x: float, y: float) -> str:
    from gate_runner.reports.contents import Cell

    frame = {"x": x + 1, "y": y + 1, "width": _CELL - 2, "height": _CELL - 2, "rx": 3}
    middle = x + _CELL / 2
    if not isinstance(cell, Cell) or cell.rank is None:
        failed = isinstance(cell, Cell) and bool(cell.reason)
        sign = "×" if failed else "–"
        return element("rect", **frame, class_="h-none") + label(
            sign, middle, y + 20, text_anchor="middle", class_="h-text-none"
        )
    level = round((cell.rank - 1) / (len(contents.runs) - 1) * (_LEVELS - 1))
    drawn = element("rect", **frame, class_=f"h{level}")
    drawn += label(str(cell.rank), middle, y + 20, text_anchor="middle", class_=f"ht{level}")
    if cell.near_best:
        drawn += element("circle", cx=x + _CELL - 6.5, cy=y + 6.5, r=2.2, class_=f"hd{level}")
    return drawn
