"""Ranks as a heatmap: benchmarks down, encoders across, the best on the left."""

from __future__ import annotations

from markupsafe import Markup

from gate_runner.charts.markup import folded, joined, note, scroll, table
from gate_runner.charts.svg import chart, element, label, shortened
from gate_runner.reports.contents import Cell, Contents, Row

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
