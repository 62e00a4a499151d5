"""ELEVATER's 20 data sets from the hub: copies with other names and orders of classes, mapped to ELEVATER's by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gate_data.cards import ICINW, IcinwSheet
from gate_data.data import Data
from gate_data.errors import DataError
from gate_data.hub.fetching import fetched
from gate_data.hub.tables import Table, label_of, picture
from gate_data.original_files import Parts, Sample, counted, to_data
from gate_data.originals.icinw.elevater import class_names, form_of, places_by_name, plain
from gate_data.originals.icinw.lists import drawn_by_class, without_banner
from gate_data.readers import Cut, Member, Row
from gate_data.request import DataRequest
from gate_data.tables import read_table


def load_icinw(name: str, request: DataRequest) -> Data[Any]:
    """A data set's three splits; validation is drawn from those to train on."""
    sheet = ICINW[name]
    return to_data(icinw_parts(name, request.root), form_of(sheet), request, sheet.hub.id)


def icinw_parts(name: str, root: Path | None) -> Parts:
    """Both splits in the order of the copy's rows, with classes in ELEVATER's order."""
    sheet = ICINW[name]
    copy = fetched(sheet.hub, root, None)
    names = class_names(name)
    lists = {role: _samples(sheet, table, len(names)) for role, table in copy.tables.items()}
    if "validation" in lists:  # as many of each class as in ELEVATER, from all splits of the copy
        by_class: dict[str, list[Any]] = {f"{sheet.hub.id}: class {label!r}": [] for label in names}
        sources = list(by_class.values())
        for sample in (sample for samples in lists.values() for sample in samples):
            sources[sample.target].append(sample.source)
        parts = drawn_by_class(by_class, *(size // sheet.classes for size in sheet.sizes))
    else:
        parts = Parts(lists["train"], lists["test"])
    ours, published = (f"{train:,} / {test:,}" for train, test in (counted(parts), sheet.sizes))
    notes = [
        f"from {sheet.hub.id} on the Hugging Face hub" + (f", revision {copy.revision[:12]}" if copy.revision else ""),
        "" if ours == published else f"it holds {ours} images to train on and to score, published are {published}",
        sheet.note,
        sheet.unsure,
    ]
    return replace(parts, classes=names, note="; ".join(filter(None, notes)))


def places(name: str, theirs: Sequence[str], where: str) -> list[int]:
    """The place in ELEVATER's order of each class of a copy: named as ELEVATER or as the original files have it."""
    ours = {_key(label): label for label in class_names(name)}
    ours |= {_key(alias): label for alias, label in read_table("icinw_aliases").get(name, {}).items()}
    return places_by_name(name, [ours.get(_key(label), label) for label in theirs], where)


def _key(name: str) -> str:
    return plain(name).replace(" ", "").strip("?")


def _samples(sheet: IcinwSheet, table: Table, count: int) -> list[Sample]:
    hub = sheet.hub
    names = table.names.get(hub.target) or hub.names
    order: Sequence[int] = places(sheet.id, names, f"{hub.id}: column {hub.target!r}") if names else range(count)

    def target(row: Row) -> Any:
        if sheet.several:
            return _several(row, hub.target, order)
        return order[label_of(row, hub.target, len(order))]

    return [Sample(_picture(sheet, row), target(row)) for row in table.rows]


def _several(row: Row, column: str, order: Sequence[int]) -> tuple[int, ...]:
    """0/1 of each class, from a list of those that are there; one may be in it several times."""
    labels = row.values.get(column)
    if not isinstance(labels, list) or any(type(label) is not int or not 0 <= label < len(order) for label in labels):
        raise row.error(column, f"a list of numbers from 0 to {len(order) - 1}")
    positive = {order[label] for label in labels}
    return tuple(int(index in positive) for index in range(len(order)))


def _picture(sheet: IcinwSheet, row: Row) -> Member | Cut:
    """The image, of aircraft without the banner at its foot."""
    source = picture(row, sheet.hub.image)
    if not sheet.id.startswith("fgvc-aircraft"):
        return source
    try:
        return without_banner(source)
    except (OSError, DataError) as error:
        raise row.error(sheet.hub.image, "an image") from error
