"""Decisions of a label audit, applied to a benchmark's file: what is corrected, confirmed and left out."""

from __future__ import annotations

import csv
import io
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from gate_data.errors import DataError, UsageError
from gate_data.own.class_names import named_classes, shown_names
from gate_data.own.corrections import (
    Correction,
    cell,
    corrected,
    corrections_text,
    read_corrections,
    refuse_unclassed,
    value,
)
from gate_data.own.entries import entries_of
from gate_data.own.entry import Entry
from gate_data.own.originals import class_names_of, parts_of
from gate_data.own.reading import line_of, read_benchmark
from gate_data.own.spec import OwnBenchmark
from gate_data.readers.source import named_from
from gate_data.readers.tables import Row, table
from wary_files.durable import write_whole

DECISIONS = ("accept", "reject", "other", "drop")
"""The prediction is right; the label is right; another class is; the image is left out."""
_COLUMNS = ("benchmark", "file", "label", "decision", "correction")
_NEW = "corrections.csv"


@dataclass(frozen=True)
class Review:
    """What decisions change.

    Args:
        changed: name, label before and label after of each image; empty for one that is left out.
        confirmed: images whose label was found right.
        corrections: all rows of the table of corrections, with those that were there before.
        decided: the decided label by image and label in the result; empty for an image that is left out.
    """

    changed: tuple[tuple[str, str, str], ...]
    confirmed: int
    corrections: tuple[Correction, ...]
    decided: Mapping[tuple[str, str], str]


def review(path: Path, decisions: Path) -> Review:
    """Read an audit's decisions and say what they change; nothing is written.

    Args:
        path: the benchmark's TOML file.
        decisions: the table that the audit's page downloads.

    Raises:
        DataError: a decision of another benchmark, on an image or a class that is not there, or on a label that was
            changed since; the message names the file and the line.
    """
    own, folder = read_benchmark(path), path.absolute().parent
    refuse_unclassed(own)
    entries, _ = entries_of(own, folder)
    before = read_corrections(own, folder)
    listed = named_classes(own, folder)
    current, _ = corrected(entries, before, folder, listed)
    labels = class_names_of(own, folder, current)
    raw = _by_words(labels, shown_names(own, folder, labels), path)
    names = _by_name(current, folder)
    rows = {(row.file, row.correction): row for row in before if row.correction}
    result = {(row.file, row.label): row for row in before}
    changed, confirmed, decided = [], 0, dict[tuple[str, str], str]()
    choices: dict[tuple[str, str], str | None] = {}  # by image and label in the data, however the table calls the image
    for row in table(decisions, _COLUMNS):
        name, label, after = _decided(row, own, raw, names)
        key = (value(row, "file"), value(row, "label"))
        chosen = "" if after is None else value(row, "correction")
        if decided.setdefault(key, chosen) != chosen or choices.get((name, label), after) != after:
            raise row.error("decision", f"one decision for {name}, which has another above")
        if (name, label) in choices:
            continue
        choices[name, label] = after
        if after == label:
            confirmed += 1
            continue
        earlier = rows.get((name, cell(label)))
        original = earlier.label if earlier is not None else cell(label)
        new = Correction(name, original, "" if after is None else cell(after), row.where)
        if new.correction == original:
            result.pop((name, original), None)
        else:
            result[name, original] = new
        changed.append((name, label, after or ""))
    corrected(entries, list(result.values()), folder, listed)
    return Review(tuple(dict.fromkeys(changed)), confirmed, tuple(result.values()), decided)


def apply_review(path: Path, made: Review) -> Path:
    """Write the table of corrections, and its name into the benchmark's file, whose other lines stay.

    Returns:
        The table's path.

    Raises:
        UsageError: a table of that name is there and the file does not name it; or the file has no line ``[data]``.
        DataError: with these decisions the data can no longer be loaded, e.g. a class has no image; nothing is written.
        OSError: a file cannot be written.
    """
    own, folder = read_benchmark(path), path.absolute().parent
    parts_of(own, folder, skip_missing=True, corrections=made.corrections)
    target = folder / (own.data.corrections or _NEW)
    if not target.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{path}: [data] corrections is {own.data.corrections!r}, outside of {folder}: not written to")
    text = path.read_text(encoding="utf-8-sig")
    if not own.data.corrections:
        if target.exists():
            raise UsageError(f"{target} is there, and {path} does not name it: rename it, or name it in [data]")
        text = _with_field(path, text)
    write_whole(target, corrections_text(made.corrections).encode())
    if not own.data.corrections:
        write_whole(path, text.encode(), follow=True)
    return target


def corrected_table(path: Path, made: Review) -> str:
    """Return the table that a benchmark's file names, with corrected labels and without images that are left out.

    Raises:
        UsageError: data that are no single CSV, TSV or JSON-lines table, or decisions that leave out every row.
    """
    own, folder = read_benchmark(path), path.absolute().parent
    file = folder / own.data.table
    if own.data.kind != "table" or not own.data.table or file.suffix == ".parquet":
        raise UsageError(f"{path} names no single CSV, TSV or JSON-lines table: leave out --table")
    entries, _ = entries_of(own, folder)
    by_row = {(row.file, row.label): row.correction for row in made.corrections}
    start = str(folder)
    corrections = [by_row.get((cell(named_from(entry.source, start)), cell(str(entry.target)))) for entry in entries]
    known = {cell(str(entry.target)): str(entry.target) for entry in entries}
    known |= {cell(name): name for name in named_classes(own, folder)}
    lines = [
        {**row.values, own.data.target: known[after]} if after else dict(row.values)
        for row, after in zip(table(file, ()), corrections, strict=True)
        if after != ""
    ]
    if not lines:
        raise UsageError(f"{path}: the decisions leave out every row: there is nothing to write")
    if file.suffix == ".jsonl":
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    with file.open(encoding="utf-8-sig") as opened:
        is_tabbed = file.suffix in (".tsv", ".tab") or "\t" in opened.readline()
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(lines[0]), delimiter="\t" if is_tabbed else ",", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return buffer.getvalue()


def _decided(
    row: Row, own: OwnBenchmark, raw: Mapping[str, str], names: Mapping[str, Mapping[str, list[str]]]
) -> tuple[str, str, str | None]:
    """An image's name, its label, and the label that was decided on; None for an image that is left out."""
    if value(row, "benchmark").partition("@")[0] != own.benchmark.id:
        raise row.error("benchmark", f"{own.benchmark.id!r}, whose file this is")
    decision, given = value(row, "decision"), value(row, "label")
    if decision not in DECISIONS:
        raise row.error("decision", f"one of {', '.join(DECISIONS)}")
    for field in ("label",) if decision == "drop" else ("label", "correction"):
        if value(row, field) not in raw:
            raise row.error(field, f"a class, such as {next(iter(raw))!r}")
    label = raw[given]
    name = _named(row, names, label)
    if decision == "drop":
        return name, label, None
    after = raw[value(row, "correction")]
    if (decision == "reject") != (after == label):
        raise row.error("correction", f"{'the label' if decision == 'reject' else 'another class than the label'}")
    return name, label, after


def _named(row: Row, names: Mapping[str, Mapping[str, list[str]]], label: str) -> str:
    """The name below the benchmark's folder of the image that a row is about."""
    file = value(row, "file")
    by_name = names.get(PurePath(file).name, {})
    matches = [file] if file in by_name else [name for name in by_name if f"/{name}".endswith(f"/{file}")]
    if len(matches) != 1:
        reason = "is not there" if not matches else f"may be {matches[0]} or {matches[1]}"
        raise DataError(f"{row.where}: image {file} {reason}: the decisions are of other data")
    if label not in by_name[matches[0]]:
        raise DataError(
            f"{row.where}: {file} is labelled {by_name[matches[0]][0]!r}, not {label!r}: the decisions are of "
            "labels that were changed since"
        )
    return matches[0]


def _by_name(entries: Sequence[Entry], folder: Path) -> dict[str, dict[str, list[str]]]:
    """Labels of each image, by the last part of its name and by its name."""
    start = str(folder)
    names: dict[str, dict[str, list[str]]] = {}
    for entry in entries:
        name = cell(named_from(entry.source, start))
        names.setdefault(PurePath(name).name, {}).setdefault(name, []).append(str(entry.target))
    return names


def _by_words(labels: Sequence[str], words: Sequence[str], path: Path) -> dict[str, str]:
    """Labels as the data have them, by what a reader sees."""
    raw: dict[str, str] = {}
    for label, shown in zip(labels, words, strict=True):
        if raw.setdefault(cell(shown), label) != label:
            raise DataError(
                f"{path}: classes {raw[cell(shown)]!r} and {label!r} are both shown as {shown!r}: name them apart"
            )
    return raw


def _with_field(path: Path, text: str) -> str:
    """The text of a benchmark's file that names the table of corrections."""
    line = f'corrections = "{_NEW}"'
    number = line_of(text, ["data"])
    lines = text.split("\n")
    if number is not None and lines[number - 1].strip().startswith("["):
        lines.insert(number, line)
        changed = "\n".join(lines)
        try:
            if tomllib.loads(changed)["data"].get("corrections") == _NEW:
                return changed
        except (ValueError, KeyError, AttributeError):
            pass
    raise UsageError(f"{path} has no line [data]: write {line} into that table, and apply again")
