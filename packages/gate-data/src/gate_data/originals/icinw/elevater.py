"""What the readers of ELEVATER's 20 data sets share: its own copies first, and class names in its order.

ELEVATER's copies are images in zips, and index files that say which image is of which class. Reading them gives the
published order, from which the published few-shot subsets are drawn. Two forms of index: text,
``train.zip@train/4/001.jpg 7`` (several labels with commas), and COCO's JSON with ``zip_file`` beside ``file_name``,
whose images the toolkit sorts by their ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gate_data.cards import ICINW, IcinwSheet
from gate_data.errors import DataError
from gate_data.original_files import Arrays, Form, Originals, Parts, Sample, Side, from_lists
from gate_data.readers import Files, Member, Row, lines, place
from gate_data.readers.tables import by_id, objects, read_json
from gate_data.tables import read_table


class Located(NamedTuple):
    """Where a data set lies, and whether it is ELEVATER's own copy."""

    path: Path
    elevater: bool


def class_names(name: str) -> tuple[str, ...]:
    """ELEVATER's names, in its order."""
    return tuple(read_table("icinw_classes")[name])


def plain(name: str) -> str:
    """A class name by which lists are matched: ``F-16A/B`` is ``f_16a-b``."""
    return re.sub(r"[\s_/.-]+", " ", name).strip().casefold()


def places_by_name(name: str, theirs: Sequence[str], where: str) -> list[int]:
    """The place in ELEVATER's order of each class of another list; ``where`` is what an error calls its file."""
    ours = {plain(label): index for index, label in enumerate(class_names(name))}
    keys = [plain(label) for label in theirs]
    lost = [label for label, key in zip(theirs, keys, strict=True) if key not in ours]
    free = [label for label in class_names(name) if plain(label) not in set(keys)]
    if lost or free or len(set(keys)) != len(keys):
        pairs = [f"{a!r} / {b!r}" for a, b in zip([*lost, "–"], [*free, "–"], strict=False)][:5]
        raise DataError(
            f"{where}: {len(theirs)} class names do not match the templates' {len(ours)} (theirs / ours): "
            f"{'; '.join(pairs)}"
        )
    return [ours[key] for key in keys]


def _in_order(content: Parts | Arrays, name: str, where: str) -> Parts | Arrays:
    """The same with its own classes, where it names them, at their places in ELEVATER's order."""
    if not content.classes:
        return content
    places = places_by_name(name, content.classes, where)
    if isinstance(content, Arrays):
        train, test = (Side(side.images, np.array(places)[side.labels]) for side in (content.train, content.test))
        return replace(content, train=train, test=test)
    lists = [[s._replace(target=places[s.target]) for s in samples] for samples in (content.train, content.test)]
    return Parts(lists[0], lists[1], note=content.note)


def form_of(sheet: IcinwSheet) -> Form:
    """What the samples of a data set become."""
    return Form(target="labels" if sheet.several else "class", share=0.2, fit=sheet.fit)


def elevater_set(name: str) -> Callable[[Callable[[Path], Parts | Arrays]], Originals[Located]]:
    """Makes originals of the function below it, which reads a data set in its authors' form; its card says where."""
    sheet = ICINW[name]
    in_authors_form = place(sheet.files, sheet.folders, *sheet.holds)
    expected = f"classification/{sheet.folder}/{sheet.index[0]}, or {sheet.files}"

    def located(root: Path) -> Located:
        for folder in (root / "classification" / sheet.folder, root / sheet.folder):
            if folder.is_dir():
                missing = [file for file in sheet.index if not (folder / file).is_file()]
                if missing:
                    raise DataError(f"{folder} is there in part: it lacks {' and '.join(missing)}")
                return Located(folder, True)
        try:
            return Located(in_authors_form(root), False)
        except DataError:
            raise DataError(f"{root} does not hold its files ({expected})") from None

    def decorate(read: Callable[[Path], Parts | Arrays]) -> Originals[Located]:
        def content(where: Located) -> Parts | Arrays:
            if where.elevater:
                content: Parts | Arrays = _copy(where.path, sheet)
            else:
                content = _in_order(read(where.path), name, str(where.path))
                content = replace(content, note="; ".join(filter(None, [content.note, sheet.note])))
            if not (len(content.train) and len(content.test)):
                counts = f"{len(content.train)} images to train on, {len(content.test)} to test"
                raise DataError(f"{where.path}: {counts}; expected some of both")
            return replace(content, classes=class_names(name))

        originals = from_lists(expected, located, content, **vars(form_of(sheet)))
        return replace(originals, check=content)  # its own protocol holds nothing out, however few there are

    return decorate


def _copy(folder: Path, sheet: IcinwSheet) -> Parts:
    """Both splits in the toolkit's order: a text's lines, COCO's images by id."""
    order, note = _order(folder, class_names(sheet.id))
    train, test = (
        (_of_coco if index.endswith(".json") else _of_text)(folder / index, order, sheet.several)
        for index in sheet.index
    )
    return Parts(train, test, note="; ".join(filter(None, ("ELEVATER's own copy and order", note))))


def _order(folder: Path, names: Sequence[str]) -> tuple[list[int], str]:
    """From the index's class numbers to ours, by the names in ``labels.txt`` where it is there."""
    path = next((path for file in ("labels.txt", "labelmap.txt") if (path := folder / file).is_file()), None)
    if path is None:
        return list(range(len(names))), ""
    theirs = [line for _, line in lines(path)]
    ours = {plain(name): index for index, name in enumerate(names)}
    paired = list(zip(theirs, names, strict=False))
    strange = [f"{label!r} / {our_name!r}" for label, our_name in paired if plain(label) not in ours]
    shown = "; ".join(strange[:5])
    if len(theirs) != len(names):
        shown = shown or "; ".join(f"{label!r} / {our_name!r}" for label, our_name in paired[-3:])
        raise DataError(f"{path} names {len(theirs)} classes, the templates {len(names)} (theirs / ours): {shown}")
    keys = [plain(label) for label in theirs]
    if not strange and len(set(keys)) == len(keys):
        return [ours[key] for key in keys], ""
    if 2 * len(strange) > len(names):
        raise DataError(
            f"{path}: {len(strange)} of {len(names)} class names are not the templates' (theirs / ours): {shown}"
        )
    return list(range(len(names))), f"{len(strange)} class names differ from the templates' (theirs / ours): {shown}"


class _Pictures:
    """From what an index says to where the image lies; each zip, or its unpacked folder, is listed once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places: dict[str, Files] = {}

    def __call__(self, zipped: str, name: str, where: str) -> str | Member:
        if zipped not in self.places:
            packed = self.folder / zipped
            self.places[zipped] = Files(packed if packed.exists() else packed.with_suffix(""))
        return self.places[zipped].get(name, where)


def _of_text(path: Path, order: Sequence[int], several: bool) -> list[Sample]:
    pictures, samples = _Pictures(path.parent), []
    for number, line in lines(path):
        where = f"{path}, line {number}"
        name, _, labels_text = line.rpartition(" ")  # paths hold spaces
        if several and not name:  # no label behind the path: all classes are absent
            name, labels_text = line, ""
        rows = [Row(path, number, {"label": label}) for label in labels_text.split(",") if labels_text] if name else []
        labels = [order[row.integer("label", 0, len(order) - 1)] for row in rows]
        if not name or (len(labels) != 1 and not several):
            raise DataError(
                f"{where}: {line[:80]!r}; expected a path, a space and {'labels' if several else 'one label'}"
            )
        zipped, at, inner = name.partition("@")
        source = pictures(zipped, inner, where) if at else pictures("", name, where)
        samples.append(Sample(source, _target(labels, len(order), several)))
    return samples


def _target(labels: Sequence[int], classes: int, several: bool) -> Any:
    return tuple(int(index in labels) for index in range(classes)) if several else labels[0]


def _of_coco(path: Path, order: Sequence[int], several: bool) -> list[Sample]:
    content = read_json(path)
    ids = sorted(by_id(objects(path, content, "categories")))
    if len(ids) != len(order):
        raise DataError(f"{path} has {len(ids)} categories, expected {len(order)}")
    rank = {number: order[index] for index, number in enumerate(ids)}
    images = dict(sorted(by_id(objects(path, content, "images")).items()))
    labels: dict[int, list[int]] = {identity: [] for identity in images}
    for row in objects(path, content, "annotations"):
        labels[row.known("image_id", images, "an image")].append(rank[row.known("category_id", rank, "a category")])
    pictures, samples = _Pictures(path.parent), []
    for identity, row in images.items():
        if not several and len(labels[identity]) != 1:
            raise DataError(f"{row.where}: {len(labels[identity])} annotations, expected one")
        source = pictures(str(row.values.get("zip_file") or ""), row.text("file_name"), row.where)
        samples.append(Sample(source, _target(labels[identity], len(order), several)))
    return samples
