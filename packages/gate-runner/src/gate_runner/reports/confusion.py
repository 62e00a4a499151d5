"""Confusion matrices as pictures: what each class was taken for, the classes that suffer most first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gate_runner.charts.markup import folded, joined, note, piece, scroll, table
from gate_runner.charts.svg import chart, element, label, shortened
from gate_runner.reports.contents import Contents

_CLASSES = 24
"""Drawn, at most."""
_OPEN = 6
"""Matrices, at most, that show without being opened."""
_CELL, _LEFT, _LETTER = 22.0, 132.0, 6.0
_LEVELS = 7


def confusions(contents: Contents) -> str:
    """A matrix for each classification and run, the first seed's; empty where there are none."""
    parts = []
    for row in contents.rows:
        for run in contents.runs:
            about = next((result.training.get("by_class") for result in run.named(row.name)), None)
            if about and about["rows"]:
                parts.append((f"{row.name}, {run.label}", _matrix(f"{row.name}, {run.label}", about)))
    if not parts:
        return ""
    explained = (
        "Rows are what samples are, columns what they were taken for; a cell's shade is its share of the row, and a "
        "pointer over it reads the counts. Classes with the most wrong samples come first."
    )
    shown = [
        joined([piece("headed", name), drawn]) if len(parts) <= _OPEN else folded(name, drawn) for name, drawn in parts
    ]
    return joined([note(explained), *shown])


def _matrix(name: str, about: Mapping[str, Any]) -> str:
    """The picture, what it leaves out, and its cells as a table."""
    support = {str(row["class"]): int(row["support"]) for row in about["rows"]}
    cells = {(true, guessed): int(count) for true, guessed, count in about["confused"]}
    wrong = dict.fromkeys(support, 0)
    for row in about["rows"]:
        recall = row["recall"][0] if row["recall"] else 0.0
        hits = round(recall * row["support"])
        wrong[str(row["class"])] = int(row["support"]) - hits
        cells[str(row["class"]), str(row["class"])] = hits
    order = sorted(support, key=lambda label: -wrong[label])
    classes = order[:_CLASSES]
    missing = len(order) - len(classes)
    parts = [scroll(_drawn(name, classes, support, cells), "Confusion matrix")]
    if missing:
        parts.append(note(f"{missing} of {len(order)} classes with fewer wrong samples are not drawn."))
    listed = [
        [true, guessed, str(count), f"{count / max(1, support[true]):.0%}"]
        for (true, guessed), count in sorted(cells.items(), key=lambda cell: -cell[1])
        if true != guessed and count
    ]
    figures = table(["Class", "taken for", "samples", "of the class"], listed, words=[1])
    return joined([*parts, folded("The same as a table, the most frequent first", figures) if listed else ""])


def _drawn(name: str, classes: list[str], support: Mapping[str, int], cells: Mapping[tuple[str, str], int]) -> str:
    body = []
    top = 20 + _LETTER * 0.82 * max(len(shortened(title, 16)) for title in classes)
    for index, title in enumerate(classes):
        middle = _LEFT + (index + 0.5) * _CELL
        turned = f"rotate(-55 {middle:.1f} {top - 6:.1f})"
        body.append(label(shortened(title, 16), middle, top - 6, class_="axis", transform=turned))
        down = top + index * _CELL
        body.append(label(shortened(title, 18), _LEFT - 8, down + 15, text_anchor="end", class_="axis"))
    for row, true in enumerate(classes):
        for column, guessed in enumerate(classes):
            count = cells.get((true, guessed), 0)
            share = count / max(1, support[true])
            level = _LEVELS - 1 - round(share * (_LEVELS - 1)) if count else None
            x, y = _LEFT + column * _CELL, top + row * _CELL
            hint = element("title", f"{true} taken for {guessed}: {count} of {support[true]}")
            style = "h-none" if level is None else f"h{min(level, _LEVELS - 2)}"
            edge = " right" if row == column else ""
            frame = {"x": x + 1, "y": y + 1, "width": _CELL - 2, "height": _CELL - 2, "rx": 2}
            body.append(element("rect", hint, **frame, class_=f"{style}{edge}"))
            if count:
                tone = f"ht{min(level or 0, _LEVELS - 2)}"
                body.append(label(str(count), x + _CELL / 2, y + 15, text_anchor="middle", class_=f"{tone} count"))
    side = len(classes) * _CELL
    width = _LEFT + side + 70
    pairs = sorted(((pair, count) for pair, count in cells.items() if pair[0] != pair[1]), key=lambda cell: -cell[1])
    description = ", ".join(f"{true} taken for {guessed} {count}" for (true, guessed), count in pairs[:10])
    return chart(f"{name}: confusion matrix", description or "nothing was confused", width, top + side + 4, body,
                 class_="heat", width=round(width))  # fmt: skip
