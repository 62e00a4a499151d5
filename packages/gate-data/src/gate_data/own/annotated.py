"""Pictures with a file of annotations each: which pictures a split has, and where a picture's annotation lies."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gate_data.errors import DataError
from gate_data.own.spec import OwnBenchmark
from gate_data.readers import files_in, lines
from gate_data.readers.folders import PICTURES

SPLITS = ("train", "validation", "test")


def root_of(own: OwnBenchmark, folder: Path, split: str = "") -> Path:
    """The folder of a split's pictures, by its shortest name."""
    root = folder / own.data.roots.get(split, own.data.root)
    short = Path(os.path.normpath(root))
    return short if short.exists() and root.exists() and short.samefile(root) else root


def annotated(own: OwnBenchmark, folder: Path, *, needed: bool) -> dict[str, list[tuple[Path, Path | None]]]:
    """Each split's pictures with their annotations; all under ``""`` where the file names no split."""
    parts = own.splits.named or {"": ""}
    pairs: dict[str, list[tuple[Path, Path | None]]] = {}
    for split, part in parts.items():
        root = root_of(own, folder, split)
        pictures = _listed(root, folder / part) if part.endswith(".txt") else _in(root / part)
        inner = "" if part.endswith(".txt") else part
        pairs[split] = [(picture, _annotation(own, folder, inner, picture)) for picture in pictures]
    lacking = [
        (picture, file) for listed in pairs.values() for picture, file in listed if file is None or not file.is_file()
    ]
    every = sum(map(len, pairs.values()))
    if lacking and (needed or len(lacking) == every):
        first, file = lacking[0]
        where = file or own.data.annotations
        raise DataError(f"{len(lacking)} of {every} pictures have no annotation, such as {first}: {where} is not there")
    return {
        split: [(picture, file if file is not None and file.is_file() else None) for picture, file in listed]
        for split, listed in pairs.items()
    }


def yolo_file(picture: Path) -> Path:
    """Where YOLO's tools look for a picture's text file: ``labels`` for the last ``images``, or beside it."""
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
        raise DataError(f"field 'data.annotations' is {pattern!r}, expected e.g. 'masks/*.png': * is a picture's name")
    return folder / pattern.replace("{}", inner).replace("*", picture.stem)


def _in(folder: Path) -> list[Path]:
    return [Path(str(file)) for file in files_in(folder)]


def _listed(root: Path, path: Path) -> list[Path]:
    """Pictures that a list names: by path, from the root or the list's folder, or by name without ending."""
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
            if mark == ["-1"]:  # VOC's list of a class: this picture does not show it
                continue
        if picture is None:
            raise DataError(f"{path}, line {number}: {line[:80]!r} is no picture in {root}")
        pictures.append(Path(os.path.normpath(picture)))
    return pictures


def first_pictures(folder: Path, count: int = 5) -> list[Path]:
    """A few pictures of a folder, by name."""
    pictures = (path for path in folder.iterdir() if path.suffix.lower() in PICTURES and not path.name.startswith("."))
    return sorted(pictures)[:count]
