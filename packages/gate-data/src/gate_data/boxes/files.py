"""Detection annotations as Roboflow exports them: COCO's JSON, or a Pascal VOC file beside each picture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gate_data.boxes.objects import Objects
from gate_data.errors import DataError
from gate_data.readers import Files, Row
from gate_data.readers.boxes import is_crowd, size_of, voc
from gate_data.readers.decode import open_picture
from gate_data.readers.folders import PICTURES
from gate_data.readers.source import read_text
from gate_data.readers.tables import by_id, read_json
from gate_data.renamed import renamed_keywords

UNNAMED = "(unlabelled)"
"""What a class with a blank name is called."""


@dataclass(frozen=True)
class Listed:
    """Pictures and their objects; nothing but the annotations is read.

    Args:
        files: of each picture, also of those without objects.
        objects: of the same pictures.
        classes: names in the order of their indices.
        clipped: boxes that reached beyond their picture, and were cut at its edge.
        dropped: boxes that had no area, or none inside their picture, and were left out.
    """

    files: tuple[str, ...]
    objects: Objects
    classes: tuple[str, ...]
    clipped: int = 0
    dropped: int = 0

    def take(self, rows: Sequence[int]) -> Listed:
        """Some of the pictures, in this order."""
        index = np.asarray(rows, dtype=np.int64)
        return Listed(
            tuple(self.files[row] for row in rows), self.objects.take(index), self.classes, self.clipped, self.dropped
        )

    @property
    def note(self) -> str:
        """What was changed; empty for nothing."""
        remarks = []
        if self.clipped:
            remarks.append(f"{self.clipped} boxes cut at the edge of their picture")
        if self.dropped:
            remarks.append(f"{self.dropped} boxes without an area left out")
        return ", ".join(remarks)


@renamed_keywords(known="order")
def read_coco(
    path: Path, folder: Path | None = None, order: Sequence[str] | None = None, *, sort_ids: bool = False
) -> Listed:
    """Pictures and objects of a COCO file.

    A class's index is the rank of its id among those in the file, whatever gaps there are. Roboflow's superclass, a
    category without objects that all others name as their ``supercategory``, is no class. Crowds are kept as such.

    Args:
        path: of the JSON file.
        folder: of the pictures; the file's by default.
        order: names of classes in the order of their indices, where another file says them; by default this file's.
        sort_ids: whether the pictures stand by their ids, as pycocotools and GLIP, which draws few shots so, have them.
    """
    content = read_json(path)
    names = _categories(path, content)
    classes = tuple(order) if order is not None else tuple(names[number] for number in sorted(names))
    rank = {name: index for index, name in enumerate(classes)}
    images = by_id(_entries(path, content, "images", least=1))
    if sort_ids:
        images = dict(sorted(images.items()))
    objects: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    sizes = {identity: _size(row, folder or path.parent) for identity, row in images.items()}
    clipped = dropped = 0
    for row in _entries(path, content, "annotations"):
        image, label = row.integer("image_id"), row.integer("category_id")
        if image not in images:
            raise row.error("image_id", "the id of an image of this file")
        if label not in names or names[label] not in rank:
            raise row.error("category_id", "the id of a category of this file")
        box, cut = _inside(_bbox(row), sizes[image])
        if box is None:
            dropped += 1
            continue
        clipped += cut
        area = row.values.get("area")
        objects[image].append(
            {
                "box": box,
                "label": rank[names[label]],
                "area": row.number("area", 0) if area and not cut else box[2] * box[3],
                "crowd": is_crowd(row),
            }
        )
    pictures = [{name: [row[name] for row in objects[image]] for name in ("box", "label", "area", "crowd")}
                for image in images]  # fmt: skip
    files = _found(path, folder or path.parent, [row.path("file_name") for row in images.values()])
    return Listed(files, Objects.of(pictures, [sizes[image] for image in images]), classes, clipped, dropped)


@renamed_keywords(known="order")
def read_voc(folder: Path, order: Sequence[str] | None = None) -> Listed:
    """Pictures and objects of a folder in which each picture has a Pascal VOC file of its name.

    Args:
        folder: with pictures and ``.xml`` files.
        order: names of classes in the order of their indices; by default all that occur, sorted.
    """
    annotations = {path.stem: path for path in sorted(folder.glob("*.xml"))}
    if not annotations:
        raise DataError(f"{folder} holds neither a COCO file nor Pascal VOC's .xml files")
    pictures = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix.lower() in PICTURES}
    missing = [stem for stem in annotations if stem not in pictures]
    if missing:
        raise DataError(
            f"{folder}: {len(missing)} pictures of .xml files are not there, such as that of {missing[0]}.xml"
        )
    return listed_voc([(path, annotations.get(stem)) for stem, path in pictures.items()], order)


def listed_voc(pictures: Sequence[tuple[Path, Path | None]], order: Sequence[str] | None = None) -> Listed:
    """Pictures and objects of Pascal VOC files, wherever they lie.

    Args:
        pictures: each with its ``.xml`` file, or None where it shows no object.
        order: names of classes in the order of their indices; by default all that occur, sorted.
    """
    classes = tuple(order) if order is not None else _names_in(file for _, file in pictures if file is not None)
    rank = {name: index for index, name in enumerate(classes)}
    boxes, sizes = [], []
    for picture, file in pictures:
        read = voc(file, rank) if file is not None else None
        sizes.append((read.size if read is not None else None) or _of_header(picture))
        boxes.append([((box.left, box.top, box.right - box.left, box.bottom - box.top), box.label)
                      for box in (read.boxes if read is not None else ())])  # fmt: skip
    return _listed([picture for picture, _ in pictures], boxes, sizes, classes)


def listed_yolo(pictures: Sequence[tuple[Path, Path | None]], classes: Sequence[str]) -> Listed:
    """Pictures and objects of YOLO's text files: a line for each object, its class and its box, or its outline.

    A line is ``CLASS X Y WIDTH HEIGHT`` in shares of the picture's sides, with the box's middle, or
    ``CLASS X1 Y1 X2 Y2 X3 Y3 …``, whose box is the one round the outline.

    Args:
        pictures: each with its ``.txt`` file, or None where it shows no object.
        classes: names in the order of their indices.
    """
    boxes, sizes = [], []
    for picture, file in pictures:
        size = _of_header(picture)
        sizes.append(size)
        boxes.append([] if file is None else [_yolo_box(row, size, len(classes)) for row in _yolo_rows(file)])
    return _listed([picture for picture, _ in pictures], boxes, sizes, tuple(classes))


def _yolo_rows(path: Path) -> list[Row]:
    lines = [line.split() for line in read_text(path).splitlines()]
    return [Row(path, number, dict(enumerate(parts))) for number, parts in enumerate(lines, start=1) if parts]  # type: ignore[arg-type]


def _yolo_box(row: Row, size: tuple[int, int], count: int) -> tuple[tuple[float, float, float, float], int]:
    cells: Mapping[Any, Any] = row.values
    if len(cells) != 5 and (len(cells) < 7 or len(cells) % 2 == 0):
        raise DataError(
            f"{row.where} has {len(cells)} fields, expected a class and a box (5), or a class and an outline"
        )
    named = Row(
        row.file, row.line, {"class": cells[0], **{f"{number}": cells[number] for number in range(1, len(cells))}}
    )
    label = named.integer("class", 0, count - 1)
    shares = [named.number(f"{number}", -1, 2) for number in range(1, len(cells))]
    if len(shares) == 4:
        wide, high = shares[2] * size[0], shares[3] * size[1]
        return (shares[0] * size[0] - wide / 2, shares[1] * size[1] - high / 2, wide, high), label
    across, down = shares[0::2], shares[1::2]
    left, top = min(across) * size[0], min(down) * size[1]
    return (left, top, max(across) * size[0] - left, max(down) * size[1] - top), label


def _listed(
    files: Sequence[Path],
    boxes: Sequence[Sequence[tuple[tuple[float, float, float, float], int]]],
    sizes: Sequence[tuple[int, int]],
    classes: tuple[str, ...],
) -> Listed:
    """Boxes within their pictures; those without an area are left out."""
    clipped = dropped = 0
    rows: list[dict[str, list[Any]]] = []
    for listed, size in zip(boxes, sizes, strict=True):
        rows.append({"box": [], "label": []})
        for raw, label in listed:
            box, cut = _inside(raw, size)
            if box is None:
                dropped += 1
                continue
            clipped += cut
            rows[-1]["box"].append(box)
            rows[-1]["label"].append(label)
    return Listed(tuple(map(str, files)), Objects.of(rows, sizes), classes, clipped, dropped)


def _entries(path: Path, content: Any, field: str, least: int = 0) -> list[Row]:
    listed = content.get(field) if isinstance(content, dict) else None
    if not isinstance(listed, list) or len(listed) < least or any(not isinstance(entry, dict) for entry in listed):
        raise DataError(f"{path}: {field!r} is no list of {'at least one ' if least else ''}objects")
    return [Row(path, number, entry, f"{field}, entry") for number, entry in enumerate(listed)]


def _categories(path: Path, content: Any) -> dict[int, str]:
    """Names by id, without Roboflow's superclass; blank ones are called `UNNAMED`, and doubles get their id."""
    rows = _entries(path, content, "categories", least=1)
    used = {row.integer("category_id") for row in _entries(path, content, "annotations")}
    names: dict[int, str] = {}
    for identity, row in by_id(rows).items():
        name = row.values.get("name")
        if not isinstance(name, str | int | float):
            raise row.error("name", "text")
        further = [entry for entry in rows if entry is not row]
        super_class = identity not in used and further and all(
            str(entry.values.get("supercategory")) == str(name) for entry in further
        )  # fmt: skip
        if super_class:
            continue
        shown = str(name) if str(name).strip() else UNNAMED
        names[identity] = shown if shown not in names.values() else f"{shown} ({identity})"
    return names


def _bbox(row: Row) -> tuple[float, float, float, float]:
    raw = row.values.get("bbox")
    if not isinstance(raw, list) or len(raw) != 4:
        raise row.error("bbox", "four numbers: left, top, width, height")
    left, top, wide, high = (Row(row.file, row.line, {"bbox": value}, row.unit).number("bbox") for value in raw)
    return left, top, wide, high


def _inside(
    box: tuple[float, float, float, float], size: tuple[int, int]
) -> tuple[tuple[float, float, float, float] | None, bool]:
    """A box cut at the edges of its picture, or None where nothing is left, and whether it was cut by over a pixel."""
    left, top, wide, high = box
    if wide <= 0 or high <= 0:
        return None, False
    if left >= 0 and top >= 0 and left + wide <= size[0] + 1 and top + high <= size[1] + 1:
        return box, False  # exports round: up to a pixel over the edge is left as it is
    right, bottom = min(left + wide, size[0]), min(top + high, size[1])
    left, top = max(0.0, left), max(0.0, top)
    if right - left <= 0 or bottom - top <= 0:
        return None, False
    return (left, top, right - left, bottom - top), True


def _size(row: Row, folder: Path) -> tuple[int, int]:
    return size_of(row) or _of_header(folder / row.path("file_name"))


def _of_header(path: Path) -> tuple[int, int]:
    try:
        with open_picture(str(path)) as opened:
            return opened.size
    except OSError as error:
        raise DataError(f"{path} is not there or no picture: {error}") from error


def _found(path: Path, folder: Path, names: Sequence[str]) -> tuple[str, ...]:
    present = Files(folder)
    missing = [name for name in names if ".." in Path(name).parts or name not in present]
    if missing:
        raise DataError(f"{path}: {len(missing)} of {len(names)} pictures are not in {folder}, such as {missing[0]!r}")
    return tuple(str(folder / name) for name in names)


def _names_in(paths: Any) -> tuple[str, ...]:
    from gate_data.readers.boxes import voc_names

    return tuple(sorted({name for path in paths for name in voc_names(path)}))
