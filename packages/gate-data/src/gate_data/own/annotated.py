"""Images with a file of annotations each: which a split has, where an annotation lies, and its boxes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

from gate_data.boxes.files import (
    BoxSplits,
    Listed,
    boxed_originals,
    listed_voc,
    listed_yolo,
    read_coco,
    remarks_of,
)
from gate_data.errors import DataError
from gate_data.original_files import Originals
from gate_data.own.class_names import named_classes, refuse_alike, shown_names
from gate_data.own.spec import OwnBenchmark
from gate_data.readers import files_in, held_out, lines
from gate_data.readers.folders import PICTURES, ending_in
from wary_files.text import number_of

SPLITS = ("train", "validation", "test")


def root_of(own: OwnBenchmark, folder: Path, split: str = "") -> Path:
    """The folder of a split's images, by its shortest name."""
    root = folder / own.data.roots.get(split, own.data.root)
    short = Path(os.path.normpath(root))
    return short if short.exists() and root.exists() and short.samefile(root) else root


def annotated(own: OwnBenchmark, folder: Path, *, needed: bool) -> dict[str, list[tuple[Path, Path | None]]]:
    """Each split's images with their annotations; all under ``""`` where the file names no split."""
    parts = own.splits.named or {"": ""}
    pairs: dict[str, list[tuple[Path, Path | None]]] = {}
    for split, part in parts.items():
        root = root_of(own, folder, split)
        pictures = _listed(root, folder / part) if part.endswith(".txt") else _in(root / part)
        inner = "" if part.endswith(".txt") else part
        pairs[split] = [(picture, _annotation(own, folder, inner, picture)) for picture in pictures]
        picture_of: dict[Path | None, Path] = {}
        for picture, file in pairs[split]:
            if (other := picture_of.setdefault(file, picture)) != picture:
                raise DataError(f"{file} would stand for two images, {other} and {picture.name}: move one of them away")
    lacking = [
        (picture, file) for listed in pairs.values() for picture, file in listed if file is None or not file.is_file()
    ]
    every = sum(map(len, pairs.values()))
    if lacking and (needed or len(lacking) == every):
        first, file = lacking[0]
        where = file or own.data.annotations
        raise DataError(f"{len(lacking)} of {every} images have no annotation, such as {first}: {where} is not there")
    return {
        split: [(picture, file if file is not None and file.is_file() else None) for picture, file in listed]
        for split, listed in pairs.items()
    }


def yolo_file(picture: Path) -> Path:
    """Where YOLO's tools look for an image's text file: ``labels`` for the last ``images``, or beside it."""
    parts = list(picture.parts)
    for index in range(len(parts) - 2, -1, -1):
        if parts[index] == "images":
            parts[index] = "labels"
            return Path(*parts).with_suffix(".txt")
    return picture.with_suffix(".txt")


def _annotation(own: OwnBenchmark, folder: Path, inner: str, picture: Path) -> Path | None:
    if own.data.kind == "yolo":
        return yolo_file(picture)
    pattern = own.data.annotations
    if "*" not in pattern:
        raise DataError(f"field 'data.annotations' is {pattern!r}, expected e.g. 'masks/*.png': * is an image's name")
    return folder / pattern.replace("{}", inner).replace("*", picture.stem)


def _in(folder: Path) -> list[Path]:
    return [Path(str(file)) for file in files_in(folder)]


def _listed(root: Path, path: Path) -> list[Path]:
    """Images that a list names: by path, from the root or the list's folder, or by name without ending."""
    stems: Mapping[str, Path] | None = None
    pictures = []
    for number, line in lines(path):
        if line.lower().endswith(PICTURES):
            places = [candidate / line for candidate in (root, path.parent)]
            picture = next((candidate for candidate in places if candidate.is_file()), None)
        else:
            if stems is None:
                stems = {picture.stem: picture for picture in _in(root)}
            word, *mark = line.split()
            picture = stems.get(word)
            if mark == ["-1"]:  # VOC's list of a class: this image does not show it
                continue
        if picture is None:
            raise DataError(f"{path}, line {number}: {line[:80]!r} is no image in {root}")
        pictures.append(Path(os.path.normpath(picture)))
    return pictures


def first_pictures(folder: Path, count: int = 5) -> list[Path]:
    """A few images of a folder, by name."""
    names = (name for name in ending_in(folder, PICTURES) if name[0] != ".")
    return [folder / name for name in islice(names, count)]


def boxed(own: OwnBenchmark, path: Path) -> Originals[Path]:
    """How a benchmark of boxes is read."""
    if own.data.kind not in ("coco", "voc", "yolo"):
        raise DataError(f'{path}: detection needs kind = "coco", "voc" or "yolo" under [data], not {own.data.kind!r}')
    if own.splits.group or own.splits.column:
        raise DataError(f"{path}: [splits] group and column are of tables; boxes have a file or folder for each split")
    return boxed_originals(f"what {path.name} names", lambda root: root, partial(_lists, own))


def objects_of(own: OwnBenchmark, folder: Path) -> tuple[list[int], list[int]]:
    """Objects of each class, of all splits and of the test."""
    lists = _lists(own, folder).named
    counts = {name: listed.objects.counts(len(listed.classes)) for name, listed in lists.items()}
    return [int(count) for count in sum(counts.values())], [int(count) for count in counts["test"]]  # type: ignore[union-attr]


def _lists(own: OwnBenchmark, folder: Path) -> BoxSplits:
    read = read_boxes(own, folder)
    remarks = [*remarks_of(read), *_tested_and_trained(read)]
    if "" in read:
        read = {"train": read[""]}
    elif "train" not in read:
        raise DataError(f"[splits] names {', '.join(read)} but no train")
    for name, share in (("test", own.splits.test_share), ("validation", own.splits.validation_share)):
        if name not in read:
            train = read["train"]
            stay, held = held_out([0] * len(train.files), share, seed=own.splits.seed)
            if not held or not stay:
                raise DataError(f"{number_of(len(train.files), 'image is', 'images are')} too few to draw {name} from")
            read["train"], read[name] = train.take(stay), train.take(held)
    shown = shown_names(own, folder, read["train"].classes)
    train, validation, test = (replace(read[name], classes=shown) for name in SPLITS)
    return BoxSplits(train, validation, test, "; ".join(remarks))


def _tested_and_trained(read: Mapping[str, Listed]) -> Iterator[str]:
    """Yield what tables say, too: which files are in the test and in another split."""
    others = {file for split, listed in read.items() if split != "test" for file in listed.files}
    both = [file for file in read["test"].files if file in others] if "test" in read else []
    if both:
        yield f"{number_of(len(both), 'file is', 'files are')} tested on and trained or validated on, such as {both[0]}"


def read_boxes(own: OwnBenchmark, folder: Path) -> dict[str, Listed]:
    """The boxes of each split that a benchmark's file names; all under ``""`` where it names none."""
    kind, named, files = own.data.kind, named_classes(own, folder), own.splits.named
    if kind == "coco":
        paths = {split: folder / path for split, path in coco_files(own).items()}
        read = {split: read_coco(path, root_of(own, folder, split)) for split, path in paths.items()}
    else:
        if kind == "yolo" and not named:
            raise DataError("field 'classes.names' is missing: a name for each number of YOLO's files")
        pairs = annotated(own, folder, needed=False)
        read = {
            split: listed_voc(annotations) if kind == "voc" else listed_yolo(annotations, named)
            for split, annotations in pairs.items()
        }
    read = {split: listed.joined() for split, listed in read.items()}
    classes = named or next(iter(read.values())).classes
    refuse_alike([*classes, *(name for listed in read.values() for name in listed.classes)])
    return {split: listed.in_order(classes, files.get(split) or str(folder)) for split, listed in read.items()}


def coco_files(own: OwnBenchmark) -> dict[str, str]:
    """The COCO file of each split, or that of all images under ``""``."""
    files = own.splits.named or {"": own.data.table}
    if not all(files.values()):
        raise DataError("field 'data.table' is missing: the COCO file of all images, or one per split under [splits]")
    return files
