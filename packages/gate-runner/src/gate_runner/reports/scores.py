"""The table of scores: a row per benchmark, under its task type, a column per run."""

from __future__ import annotations

from html import escape

from gate_runner.charts.svg import element
from gate_runner.reports.contents import Cell, Contents, Row

_WIDE = 5


def scores_table(contents: Contents) -> str:
    """The table's markup."""
    wide = " wide" if len(contents.runs) > _WIDE else ""
    heads = "".join(
        f'<th scope="col" class="run" title="{escape(name)}">{escape(name)}</th>' for name in contents.labels
    )
    heads = f'<th scope="col">Benchmark</th>{heads}'
    parts = [f'<table class="scores{wide}"><thead><tr>{heads}</tr></thead><tbody>']
    columns = len(contents.runs) + 1
    task = ""
    for row in contents.rows:
        if row.task != task:
            task = row.task
            parts.append(
                f'<tr class="group"><th colspan="{columns}" scope="rowgroup">{escape(_headed(task))}</th></tr>'
            )
        parts.append(_row(contents, row))
    parts.append("</tbody></table>")
    return "".join(parts)


def _headed(task: str) -> str:
    return task.replace("-", " ").capitalize()


def _row(contents: Contents, row: Row) -> str:
    arrow = "higher is better" if row.direction == "higher" else "lower is better"
    metric = shown_metric(row)
    chance = next((cell.chance for cell in row.cells.values() if cell.chance is not None), None)
    metric += "" if chance is None else f", chance {number(chance)}"
    metric += "" if row.untrained is None else f", untrained {number(row.untrained)}"
    tags = [f'<span class="tag" title="{arrow}">{escape(metric)}</span>']
    tags += [f'<span class="tag">{escape(text)}</span>' for text in (row.note, row.mixed) if text]
    cells = "".join(_cell(row, row.cells.get(name)) for name in contents.labels)
    return f'<tr><th scope="row"><span class="name">{escape(row.name)}</span>{"".join(tags)}</th>{cells}</tr>'


def _cell(row: Row, cell: Cell | None) -> str:
    if cell is None:
        return '<td class="run"><span class="interval">not run</span></td>'
    if cell.value is None or cell.low is None or cell.high is None:
        return f'<td class="run"><span class="failed" title="{escape(cell.reason)}">failed</span></td>'
    top = " top" if cell.rank == 1 else ""
    near = ' <abbr class="near" title="a paired test does not tell it from the best">≈</abbr>' if cell.near_best else ""
    spread = ""
    if len(cell.by_seed) > 1:
        spread = (
            f'<span class="interval">{len(cell.by_seed)} seeds: {number(min(cell.by_seed))}–'
            f"{number(max(cell.by_seed))}</span>"
        )
    return (
        f'<td class="run{top}"><span class="value">{number(cell.value)}</span>{near}'
        f'<span class="interval">{number(cell.low)}–{number(cell.high)}</span>{spread}{_strip(row, cell)}</td>'
    )


def _strip(row: Row, cell: Cell) -> str:
    """The interval on the row's scale; the figures beside it say the same, so readers aloud skip it."""
    assert cell.value is not None
    assert cell.low is not None
    assert cell.high is not None
    ends = [value for one in row.cells.values() for value in (one.high, one.chance) if value is not None]
    most = max(ends) * 1.02 if row.direction == "lower" else max(1.0, *ends)
    least = min(0.0, *(value for one in row.cells.values() for value in (one.low,) if value is not None))

    def place(value: float) -> float:
        share = (value - least) / ((most - least) or 1.0)
        return 100 * (share if row.direction == "higher" else 1 - share)

    low, high = sorted((place(cell.low), place(cell.high)))
    body = [
        element("line", x1=0, y1=4.5, x2=100, y2=4.5, class_="rail"),
        element("rect", x=low, y=2.0, width=max(high - low, 0.8), height=5, class_="reach"),
        element("rect", x=place(cell.value) - 0.9, y=0.5, width=1.8, height=8, class_="mark"),
    ]
    if cell.chance is not None:
        body.append(element("line", x1=place(cell.chance), y1=0, x2=place(cell.chance), y2=9, class_="chance"))
    return element("svg", *body, class_="strip", viewBox="0 0 100 9", preserveAspectRatio="none", aria_hidden="true")


def shown_metric(row: Row) -> str:
    """The headline metric, with an arrow to its better side."""
    return f"{row.metric} {'↑' if row.direction == 'higher' else '↓'}" if row.metric else "no score"


def number(value: float) -> str:
    """Three figures behind the point, fewer for large numbers.

    Example:
        >>> number(0.12345), number(123.45)
        ('0.123', '123')
    """
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"
