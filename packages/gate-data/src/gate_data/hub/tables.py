"""Rows of a repository on the hub as lists of samples: an image with a class, or with a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gate_data.cards import Hub
from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample
from gate_data.readers import Member, Row


class Table(NamedTuple):
    """One split: its rows, in which images are members of archives, and the names of classes by column."""

    rows: Sequence[Row]
    names: Mapping[str, tuple[str, ...]]


Tables = Mapping[str, Table]
"""Splits by what they are for: ``"train"``, ``"test"`` and, where the repository has one, ``"validation"``."""


def label_of(row: Row, column: str, count: int) -> int:
    """Return a row's class, from 0 to ``count`` - 1; a column of truth values holds 0 and 1."""
    value = row.values.get(column)
    return int(value) if isinstance(value, bool) and count > 1 else row.integer(column, 0, count - 1)


def picture(row: Row, column: str) -> Member:
    """The image in a column."""
    cell = row.values.get(column)
    if not isinstance(cell, Member):
        raise row.error(column, "an image")
    return cell


def texts(row: Row, column: str, count: int) -> tuple[str, ...]:
    """A list of so many texts, none of them empty."""
    cell = row.values.get(column)
    if not isinstance(cell, list) or len(cell) != count or not all(isinstance(text, str) and text for text in cell):
        raise row.error(column, f"{count} texts")
    return tuple(cell)


def classes(tables: Tables, hub: Hub, count: int) -> Parts:
    """Images with a class each."""
    names = tables["train"].names.get(hub.target) or tuple(f"class {number}" for number in range(count))
    if len(names) != count:
        raise DataError(f"{hub.id}: column {hub.target!r} has {len(names)} classes, expected {count}")
    lists = {
        role: [Sample(picture(row, hub.image), label_of(row, hub.target, count)) for row in table.rows]
        for role, table in tables.items()
    }
    return Parts(lists["train"], lists["test"], lists.get("validation"), names)


def classes_apart(tables: Tables, hub: Hub, count: int) -> Parts:
    """Images for few-shot episodes: each split has classes of its own.

    Where the column has names, they say which class is which over all splits; bare numbers begin anew in each split.
    """
    number: dict[tuple[str, int], int] = {}
    titles: list[str] = []
    lists: dict[str, list[Sample]] = {}
    for role, table in tables.items():
        names = table.names.get(hub.target)
        lists[role] = []
        for row in table.rows:
            own = label_of(row, hub.target, len(names) if names else 10**6)
            key = ("" if names else role, own)
            if key not in number:
                number[key] = len(titles)
                titles.append(names[own] if names else f"{role} {own}")
            lists[role].append(Sample(picture(row, hub.image), number[key]))
    if len(titles) > count:
        raise DataError(f"{hub.id}: column {hub.target!r} has {len(titles)} classes, expected at most {count}")
    return Parts(lists["train"], lists["test"], lists["validation"], tuple(titles))


def maps(tables: Tables, hub: Hub, names: Sequence[str]) -> Parts:
    """Images with a class map each, itself an image."""
    lists = {
        role: [Sample(picture(row, hub.image), picture(row, hub.target)) for row in table.rows]
        for role, table in tables.items()
    }
    return Parts(lists["train"], lists["test"], lists.get("validation"), tuple(names))
