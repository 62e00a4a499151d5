"""Divided lists of images: ``split_zhou_*.json``, FGVCAircraft's lists, and ImageNet's folders, checked at the door."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from posixpath import normpath
from typing import NamedTuple

from gate_data.coop.cards import CoopSheet
from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample
from gate_data.readers.folders import Files, classes_in, files_of_classes, first_of
from gate_data.readers.tables import is_whole, lines, read_json

_SPLITS = {"train": "train", "val": "validation", "test": "test"}
_WNID = re.compile(r"n[0-9]{8}")
_NUMBER = re.compile(r"[0-9]{1,18}")
_SHOWN = 3
"""Missing images that an error names."""
_AGAIN = "take the published split file again, this one was edited"
MARK, SYNTHETIC = "MADE-UP.txt", "synthetic stand-in, drawn images"
"""A file beside images that `write_made_up` made, and what a result of them says."""


@dataclass(frozen=True)
class DividedImages(Parts):
    """Images to train on, to validate on and to test, in the order of their lists.

    ``ids`` holds the classes' folders (``n01440764``) where class names are other words than these.

    Example:
        >>> DividedImages([], [Sample("val/n01440764/1.JPEG")], (), ("tench",), ids=("n01440764",)).classes
        ('tench',)
    """

    ids: tuple[str, ...] = ()


class _Entry(NamedTuple):
    """A line of a list: an image's path, its class, and where the line is."""

    path: str
    label: int
    name: str
    where: str


def read_split(path: Path, images: Path, *, names_repeat: bool = False) -> DividedImages:
    """Read a file of splits in the form of CoOp and Dassl: ``{"train": [[path, label, class name], ...], ...}``.

    Args:
        path: the JSON file, with the lists ``train``, ``val`` and ``test``.
        images: the folder, or the zip or tar archive, that the paths start from.
        names_repeat: whether two labels may have one name, as ImageNet's missiles and sunglasses have.

    Returns:
        The images in the order of the lists, the class names in the order of the labels.

    Raises:
        DataError: anything but three such lists; labels that are not 0 to k - 1; a label with two names, or a name with
            two labels; an image in two places; images that are not there. The message names file, list and entry.

    Example:
        >>> read_split(Path("dtd/split_zhou_DescribableTextures.json"), Path("dtd/images"))  # doctest: +SKIP

    Source:
        Zhou et al., Learning to Prompt for Vision-Language Models, IJCV 2022: the form of its published files.
    """
    content = read_json(path)
    if not isinstance(content, dict) or not all(isinstance(content.get(name), list) for name in _SPLITS):
        held = ", ".join(map(repr, content)) if isinstance(content, dict) else type(content).__name__
        raise DataError(f"{path}: expected an object with the lists 'train', 'val' and 'test', got {held[:80]}")
    lists = {side: [_entry(row, f"{path}: {name}[{at}]") for at, row in enumerate(content[name])]
             for name, side in _SPLITS.items()}  # fmt: skip
    return _checked(lists, images, str(path), names_repeat=names_repeat)


def _entry(row: object, where: str) -> _Entry:
    if not isinstance(row, list) or len(row) != 3:
        raise DataError(f"{where} is {str(row)[:80]}, expected [path, label, class name]")
    path, label, name = row
    if not isinstance(path, str) or not path or "\0" in path:
        raise DataError(f"{where}: the path is {path!r:.80}, expected text")
    number = int(label) if isinstance(label, str) and _NUMBER.fullmatch(label) else label
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise DataError(f"{where}: the label is {label!r:.80}, expected a whole number of at least 0")
    if not isinstance(name, str) or not name.strip() or not is_whole(name):
        raise DataError(f"{where}: the class name is {name!r:.80}, expected text")
    return _Entry(normpath(path.replace("\\", "/")), number, name.strip(), where)


def _checked(
    lists: dict[str, list[_Entry]], images: Path, listed_in: str, *, names_repeat: bool = False
) -> DividedImages:
    """Return the lists with their classes in order, after every check that needs no image to be opened."""
    classes = _classes((entry for entries in lists.values() for entry in entries), names_repeat)
    known: dict[str, _Entry] = {}
    for entry in (entry for entries in lists.values() for entry in entries):
        first = known.setdefault(entry.path, entry)
        if first is not entry:
            labels = "" if first.label == entry.label else f", with the labels {first.label} and {entry.label}"
            raise DataError(
                f"{entry.where}: {entry.path} is also {_place(first, entry)}{labels}; remove one of the two"
            )
    empty = [name for name in ("train", "test") if not lists[name]]
    if empty:
        raise DataError(f"{listed_in}: the list {empty[0]!r} is empty")
    files = Files(images)
    missing = [entry.path for entry in known.values() if _leads_out(entry.path) or entry.path not in files]
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (" …" if len(missing) > _SHOWN else "")
        raise DataError(
            f"{listed_in}: {len(missing):,} of {len(known):,} images are not in {images}: {shown}; complete the folder"
        )
    train, validation, test = (
        [Sample(files.get(entry.path, entry.where), entry.label) for entry in lists[side]]
        for side in ("train", "validation", "test")
    )
    return DividedImages(train, test, validation, classes)


def _leads_out(path: str) -> bool:
    return path.startswith("/") or ".." in path.split("/")


def _classes(entries: Iterable[_Entry], names_repeat: bool) -> tuple[str, ...]:
    """Return class names by label: each label has one name, and each name one label, in every list."""
    names: dict[int, _Entry] = {}
    labels: dict[str, _Entry] = {}
    for entry in entries:
        first = names.setdefault(entry.label, entry)
        if first.name != entry.name:
            at = _place(first, entry)
            raise DataError(f"{entry.where}: label {entry.label} is {entry.name!r}, in {at} {first.name!r}; {_AGAIN}")
        first = labels.setdefault(entry.name, entry)
        if first.label != entry.label and not names_repeat:
            at = _place(first, entry)
            raise DataError(
                f"{entry.where}: class {entry.name!r} has the label {entry.label}, in {at} {first.label}: "
                f"the lists have their classes in different orders; {_AGAIN}"
            )
    gap = next((label for label in range(len(names)) if label not in names), None)
    if gap is not None:
        last = max(names)
        raise DataError(f"{names[last].where}: label {last} of {len(names)} classes; no image has the label {gap}")
    return tuple(names[label].name for label in range(len(names)))


def _place(entry: _Entry, other: _Entry) -> str:
    """Return where an entry is, without the file if that is the other's, too."""
    file, _, at = entry.where.rpartition(": ")
    return at if other.where.startswith(f"{file}: ") else entry.where


def read_zhou(sheet: CoopSheet, folder: Path) -> DividedImages:
    """Read one of the sets with a ``split_zhou_*.json``; its note says what differs from the published sizes."""
    return with_sizes(sheet, read_split(folder / sheet.split, folder / sheet.images))


def with_sizes(sheet: CoopSheet, parts: DividedImages) -> DividedImages:
    """Return the same with a note of what differs from the published sizes."""
    counts = len(parts.train), len(parts.validation or ()), len(parts.test)
    notes = [parts.note, sheet.differs(counts, len(parts.classes))]
    return replace(parts, note="; ".join(filter(None, notes)))


def read_aircraft(sheet: CoopSheet, folder: Path) -> DividedImages:
    """Read FGVCAircraft's own lists: classes in the order of ``variants.txt``, whole images."""
    names = [line.strip() for _, line in lines(folder / "variants.txt")]
    number = {name: label for label, name in enumerate(names)}
    if len(number) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise DataError(f"{folder / 'variants.txt'} names {twice!r} twice")

    def entries(part: str) -> Iterator[_Entry]:
        path = folder / f"images_variant_{part}.txt"
        for line, text in lines(path):
            image, _, name = text.strip().partition(" ")
            if name.strip() not in number:
                raise DataError(f"{path}, line {line}: variant {name.strip()!r} is not in variants.txt")
            yield _Entry(f"{image}.jpg", number[name.strip()], name.strip(), f"{path}: line {line}")

    lists = {side: list(entries(part)) for part, side in _SPLITS.items()}
    return with_sizes(sheet, _checked(lists, folder / sheet.images, str(folder)))


def read_class_names(path: Path) -> dict[str, str]:
    """Read ``classnames.txt``: a folder and the words of its class on each line, in the order of the folders.

    Raises:
        DataError: a line without both, a folder twice or out of order; the message names the line.
    """
    names: dict[str, str] = {}
    before = ""
    for line, text in lines(path):
        folder, _, name = text.strip().partition(" ")
        if not _WNID.fullmatch(folder) or not name.strip():
            raise DataError(f"{path}, line {line} is {text[:60]!r}, expected a folder and a name: n01440764 tench")
        if folder <= before:
            raise DataError(f"{path}, line {line}: {folder} after {before}: ImageNet numbers its sorted folders")
        names[folder], before = name.strip(), folder
    return names


def read_imagenet(sheet: CoopSheet, folder: Path) -> DividedImages:
    """Read ImageNet: ``split_ImageNet.json`` if it is there, else every image of ``train/``, with ``val/`` as the test.

    No published list divides the training images in CoOp, so that nothing validates without that file.
    """
    names = read_class_names(folder / "classnames.txt")
    images = first_of(folder, [sheet.images, "."])
    split = folder / "split_ImageNet.json"
    if split.is_file():
        parts = read_split(split, images, names_repeat=True)
        counts = len(parts.train) + len(parts.validation or ()), 0, len(parts.test)
        return replace(parts, ids=_ids(parts, split), note=sheet.differs(counts, len(parts.classes)))
    ids = tuple(classes_in(images / "train"))
    _named(ids, names, folder)
    note = "shots are drawn from sorted file names, not from the published split_ImageNet.json"
    train, test = (_of_folders(images / side, ids) for side in ("train", "val"))
    return with_sizes(sheet, DividedImages(train, test, (), tuple(names[name] for name in ids), note, ids=ids))


def read_shifted(sheet: CoopSheet, folder: Path, imagenet: Path | None) -> DividedImages:
    """Read one of ImageNet's shifted test sets; names come from ``classnames.txt``, its own or ImageNet's."""
    places = [place / "classnames.txt" for place in (folder, imagenet) if place is not None]
    listed = next((path for path in places if path.is_file()), None)
    if listed is None:
        raise DataError(f"{folder} has no classnames.txt, and no imagenet/ next to it has one")
    names = read_class_names(listed)
    images = first_of(folder, [sheet.images, *(("sketch",) if sheet.images == "images" else ())])
    folders = classes_in(images)
    if all(name.isdecimal() for name in folders):
        ordered = list(names)
        beyond = [name for name in folders if int(name) >= len(ordered)]
        if beyond:
            raise DataError(f"{images / beyond[0]}: {listed} has {len(ordered)} classes, numbered from 0")
        folders = sorted(folders, key=int)
        ids = tuple(ordered[int(name)] for name in folders)
    else:
        ids = tuple(folders)
        _named(ids, names, listed.parent)
    test = _of_folders(images, folders)
    return with_sizes(sheet, DividedImages((), test, (), tuple(names[name] for name in ids), ids=ids))


def _named(ids: Sequence[str], names: dict[str, str], folder: Path) -> None:
    unnamed = [name for name in ids if name not in names]
    if unnamed:
        raise DataError(f"{folder / 'classnames.txt'} has no name for {len(unnamed)} folders, such as {unnamed[0]}")


def _of_folders(folder: Path, order: Sequence[str]) -> list[Sample]:
    """Return every image of the folders of classes, which are numbered in a given order."""
    number = {name: label for label, name in enumerate(order)}
    files = files_of_classes(folder)
    strange = [name for name in files if name not in number]
    if strange:
        raise DataError(f"{folder / strange[0]} is a class that no image is trained on")
    return [Sample(file, number[name]) for name in order for file in files.get(name, ())]


def _ids(parts: DividedImages, split: Path) -> tuple[str, ...]:
    """Return the folder of each class, from the paths of its training images."""
    folders: dict[int, str] = {}
    for sample in parts.train:
        name = sample.source if isinstance(sample.source, str) else str(getattr(sample.source, "name", ""))
        folder = Path(name).parent.name
        if folders.setdefault(sample.target, folder) != folder:
            label = sample.target
            raise DataError(f"{split}: label {label} has images in the folders {folders[label]} and {folder}")
    ids = tuple(folders.get(label, "") for label in range(len(parts.classes)))
    if "" in ids:
        raise DataError(f"{split}: the list 'train' has no image of label {ids.index('')}")
    return ids
