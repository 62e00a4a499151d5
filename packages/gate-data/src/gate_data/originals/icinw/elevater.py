"""ELEVATER's own copies: pictures in zips, and index files that say which picture is of which class.

Reading them gives the published order, from which the published few-shot subsets are drawn. Two forms of index: text,
``train.zip@train/4/001.jpg 7`` (several labels with commas), and COCO's JSON with ``zip_file`` beside ``file_name``,
whose pictures the toolkit sorts by their ids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gate_data.cards.icinw import IcinwSheet
from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample
from gate_data.readers import Member, lines, read_json
from gate_data.readers.archives import members

_LABELS = ("labels.txt", "labelmap.txt")


def parts(folder: Path, sheet: IcinwSheet, names: Sequence[str]) -> Parts:
    """Both splits in the toolkit's order: a text's lines, COCO's pictures by id."""
    order, note = _order(folder, names)
    train, test = (
        (_coco if index.endswith(".json") else _text)(folder / index, order, sheet.several) for index in sheet.index
    )
    return Parts(train, test, note="; ".join(remark for remark in ("ELEVATER's own copy and order", note) if remark))


def _order(folder: Path, names: Sequence[str]) -> tuple[list[int], str]:
    """From the index's class numbers to ours, by the names in ``labels.txt`` where it is there."""
    path = next((folder / file for file in _LABELS if (folder / file).is_file()), None)
    if path is None:
        return list(range(len(names))), ""
    theirs = [line for _, line in lines(path) if line.strip()]
    ours = {plain(name): index for index, name in enumerate(names)}
    strange = [(file, ours_name) for file, ours_name in zip(theirs, names, strict=False) if plain(file) not in ours]
    shown = "; ".join(f"{file!r} / {ours_name!r}" for file, ours_name in strange[:5])
    if len(theirs) != len(names):
        raise DataError(
            f"{path} names {len(theirs)} classes, the templates {len(names)} (theirs / ours): "
            f"{shown or '; '.join(f'{a!r} / {b!r}' for a, b in list(zip(theirs, names, strict=False))[-3:])}"
        )
    keys = [plain(file) for file in theirs]
    if not strange and len(set(keys)) == len(keys):
        return [ours[key] for key in keys], ""
    if 2 * len(strange) > len(names):
        raise DataError(
            f"{path}: {len(strange)} of {len(names)} class names are not the templates' (theirs / ours): {shown}"
        )
    return list(range(len(names))), f"{len(strange)} class names differ from the templates' (theirs / ours): {shown}"


def plain(name: str) -> str:
    """A class name by which lists are matched.

    Example:
        >>> plain("F-16A/B") == plain("f_16a-b"), plain("Ram C/V") == plain("Ram C V")
        (True, True)
    """
    return re.sub(r"[\s_/.-]+", " ", name).strip().casefold()


class _Places:
    """From what an index says to where the picture lies; each zip is listed once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.listed: dict[str, Mapping[str, Any] | None] = {}

    def __call__(self, zipped: str, name: str, where: str) -> str | Member:
        if not zipped:
            return self._file(self.folder / name, where)
        if zipped not in self.listed:
            path = self.folder / zipped
            self.listed[zipped] = members(path) if path.is_file() else None
        inside = self.listed[zipped]
        if inside is None:  # unpacked beside where the zip was
            return self._file(self.folder / zipped.removesuffix(".zip") / name, where)
        if name not in inside:
            raise DataError(f"{where}: {self.folder / zipped} has no member {name}")
        return Member(str(self.folder / zipped), name)

    def _file(self, path: Path, where: str) -> str:
        if not path.is_file():
            raise DataError(f"{where}: {path} is not there")
        return str(path)


def _text(path: Path, order: Sequence[int], several: bool) -> list[Sample]:
    places, samples = _Places(path.parent), []
    for number, line in lines(path):
        where = f"{path}, line {number}"
        name, _, labels_text = line.rpartition(" ")  # paths hold spaces
        if several and not name:  # no label behind the path: all classes are absent
            name, labels_text = line, ""
        labels = [_label(label, order, where) for label in labels_text.split(",") if labels_text] if name else []
        if not name or (len(labels) != 1 and not several):
            raise DataError(
                f"{where}: {line[:80]!r}; expected a path, a space and {'labels' if several else 'one label'}"
            )
        zipped, at, inner = name.partition("@")
        source = places(zipped, inner, where) if at else places("", name, where)
        samples.append(Sample(source, _target(labels, len(order), several)))
    return samples


def _label(text: str, order: Sequence[int], where: str) -> int:
    if not text.isdecimal() or not int(text) < len(order):
        raise DataError(f"{where}: label {text[:20]!r}, expected 0 to {len(order) - 1}")
    return order[int(text)]


def _target(labels: Sequence[int], classes: int, several: bool) -> Any:
    return tuple(int(index in labels) for index in range(classes)) if several else labels[0]


def _coco(path: Path, order: Sequence[int], several: bool) -> list[Sample]:
    raw = read_json(path)
    try:
        ids = sorted(int(row["id"]) for row in raw["categories"])
        if len(ids) != len(order):
            raise DataError(f"{path} has {len(ids)} categories, expected {len(order)}")
        rank = {row: order[index] for index, row in enumerate(ids)}
        labels: dict[int, list[int]] = {}
        for row in raw["annotations"]:
            labels.setdefault(int(row["image_id"]), []).append(rank[int(row["category_id"])])
        places, samples = _Places(path.parent), []
        listed = sorted(enumerate(raw["images"], start=1), key=lambda entry: int(entry[1]["id"]))
        last: int | None = None
        for number, row in listed:
            identity = int(row["id"])
            if identity == last:
                raise DataError(f"{path}, image {number}: the id {identity} comes twice")
            last = identity
            own = labels.get(identity, [])
            if not several and len(own) != 1:
                raise DataError(f"{path}, image {number}: {len(own)} annotations, expected one")
            source = places(row.get("zip_file", ""), row["file_name"], f"{path}, image {number}")
            samples.append(Sample(source, _target(own, len(order), several)))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not COCO's JSON: {type(error).__name__} {error}") from error
    return samples
