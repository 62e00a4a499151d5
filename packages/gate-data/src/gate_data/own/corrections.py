"""Corrected labels of one's own data: a table that lies over what tables, folders and annotations say."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gate_data.errors import DataError, unknown
from gate_data.own.entry import Entry
from gate_data.own.spec import OwnBenchmark
from gate_data.readers.source import named_from, read_text
from gate_data.readers.tables import Row, table
from wary_files.text import inert, number_of, printable

HEADS = ("file", "label", "correction")
_TASKS = ("image-classification", "zero-shot", "knn", "clustering", "video-classification")
"""Tasks whose samples have one class each."""


class Correction(NamedTuple):
    """A label that is wrong.

    Args:
        file: the image's name below the folder of the benchmark's file, as `cell` writes it.
        label: as the data have it.
        correction: the right label; empty for an image that is left out.
        where: file and line, as errors name them.
    """

    file: str
    label: str
    correction: str
    where: str = ""


def cell(text: str) -> str:
    r"""Return a name as tables have it: on one line, and run by no spreadsheet.

    Example:
        >>> cell("=a\nb.png")
        "'=a\\nb.png"
    """
    return inert(printable(text))


def value(row: Row, field: str) -> str:
    """A cell as it is, blanks included; empty if it is missing."""
    return "" if row.values.get(field) is None else str(row.values[field])


def read_corrections(own: OwnBenchmark, folder: Path) -> list[Correction]:
    """Read the table of corrections that a benchmark's file names; none if it names none.

    Raises:
        DataError: a task without classes; a table that cannot be read, with file and line.
    """
    if not own.data.corrections:
        return []
    refuse_unclassed(own)
    path = folder / own.data.corrections
    if path.is_file() and read_text(path).strip() == corrections_text([]).strip():  # all were taken back
        return []
    rows = list(table(path, HEADS))
    is_text = path.suffix not in (".jsonl", ".parquet")  # which have null for an empty cell
    if is_text and (torn := next((row for row in rows if row.values.get("correction") is None), None)):
        raise torn.error("correction", "a class, or an empty cell for an image that is left out")
    return [Correction(value(row, "file"), value(row, "label"), value(row, "correction"), row.where) for row in rows]


def refuse_unclassed(own: OwnBenchmark) -> None:
    """Refuse corrections of samples that have no class, or several."""
    if own.samples not in _TASKS:
        raise DataError(
            f"field 'data.corrections': labels of {own.samples} are not corrected; expected one of {', '.join(_TASKS)}"
        )


def corrected(
    entries: Sequence[Entry], corrections: Sequence[Correction], folder: Path, names: Sequence[str] = ()
) -> tuple[list[Entry], str]:
    """Return entries with corrected labels, and what was corrected, in words.

    Args:
        entries: with classes as targets.
        corrections: each of an image that is among them, with the label that it has.
        folder: of the benchmark's file.
        names: classes that the file lists; those of the entries count, too.

    Raises:
        DataError: an image that is not there, another label than the table was made for, an unknown class.
    """
    if not corrections:
        return list(entries), ""
    start = str(folder.absolute())
    wanted: dict[tuple[str, str], Correction] = {}
    for row in corrections:
        earlier = wanted.setdefault((row.file, row.label), row)
        if earlier is not row and earlier.correction != row.correction:
            raise DataError(f"{row.where}: {row.file} is corrected to {row.correction!r} and to {earlier.correction!r}")
    known = {cell(name): name for name in (*names, *dict.fromkeys(str(entry.target) for entry in entries))}
    for row in wanted.values():
        if row.correction and row.correction not in known:
            raise DataError(f"{row.where}: {unknown('class', row.correction, sorted(known))}")
    changed: list[Entry] = []
    labels: dict[str, str] = {}
    used: set[tuple[str, str]] = set()
    dropped = 0
    for entry in entries:
        name, label = cell(named_from(entry.source, start)), cell(str(entry.target))
        labels.setdefault(name, label)
        correction = wanted.get((name, label))
        if correction is not None:
            used.add((name, label))
        if correction is None or correction.correction:
            target = entry.target if correction is None else known[correction.correction]
            changed.append(entry if correction is None else entry._replace(target=target))
        else:
            dropped += 1
    for key, row in wanted.items():
        if key not in used:
            reason = f"is labelled {labels[row.file]!r}, not {row.label!r}" if row.file in labels else "is not there"
            raise DataError(f"{row.where}: {row.file} {reason}: the table of corrections is of other data")
    corrected_labels = sum(row.correction not in ("", row.label) for row in wanted.values())
    parts = [f"{number_of(corrected_labels, 'label')} corrected"] * bool(corrected_labels)
    parts += [f"{number_of(dropped, 'image')} left out by corrections"] * bool(dropped)
    return changed, ", ".join(parts)


def corrections_text(corrections: Sequence[Correction]) -> str:
    """Return the table of corrections, every cell in quotes so that blanks stay."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(HEADS)
    writer.writerows(row[:3] for row in corrections)
    return buffer.getvalue()
