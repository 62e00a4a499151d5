"""Detection annotations as Roboflow exports them: COCO's JSON, or a Pascal VOC file beside each image; and YOLO's.

One file of more than 400 lines: the three forms share their checks of boxes, which are most of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import numpy as np

from gate_data.boxes.objects import Objects
from gate_data.boxes.placing import places_of
from gate_data.data import Data, Split
from gate_data.errors import DataError
from gate_data.near_splits import near_column, near_known, without_near
from gate_data.original_files import Originals, Parts, Place, Sample, readable
from gate_data.pictures import Pictures
from gate_data.ragged import Ragged
from gate_data.readers import Files, Row
from gate_data.readers.folders import PICTURES
from gate_data.readers.maps import ranked
from gate_data.readers.source import read_bytes, read_text
from gate_data.readers.tables import by_id, objects, read_json
from gate_data.readers.upright import Corners, Sides, frame_of, frames_of
from gate_data.request import DataRequest
from wary_files.text import number_of

_ONCE = frozenset({"size", "width", "height", "name", "difficult", "bndbox", "xmin", "ymin", "xmax", "ymax"})
"""Elements of Pascal VOC that stand once in theirs."""
_WIDEST = 2**31 - 1
"""Pixels of an image's side, as formats of images hold them."""
UNNAMED = "(unlabelled)"
"""What a class with a blank name is called."""


class _Box(NamedTuple):
    """One object; without an area of its own it has its box's."""

    corners: Corners
    label: int
    area: float = 0.0
    crowd: bool = False


@dataclass(frozen=True)
class Listed:
    """Images, also those without objects, and their objects; nothing but the annotations is read.

    Of the boxes, some were clipped at the edge of their image, others had no area inside it, and were dropped.
    """

    files: tuple[str, ...]
    objects: Objects
    classes: tuple[str, ...]
    clipped: int = 0
    dropped: int = 0
    remarks: tuple[str, ...] = ()

    def take(self, rows: Sequence[int]) -> Listed:
        """Some of the images, in this order."""
        index = np.asarray(rows, dtype=np.int64)
        return replace(self, files=tuple(self.files[row] for row in rows), objects=self.objects.take(index))

    def joined(self) -> Listed:
        """The same with each image once: objects that its other rows name are joined, and equal ones count once."""
        rows_of: dict[str, list[int]] = {}
        for row, file in enumerate(self.files):
            rows_of.setdefault(file, []).append(row)
        again = len(self.files) - len(rows_of)
        if not again:
            return self
        every, pictures = list(self.objects.rows), []
        for rows in rows_of.values():
            whole = {name: np.concatenate([every[row][name] for row in rows]) for name in every[rows[0]]}
            if len(rows) > 1:
                marks = np.column_stack([whole["box"], whole["label"], whole["crowd"]])
                first = np.sort(np.unique(marks, axis=0, return_index=True)[1])
                whole = {name: column[first] for name, column in whole.items()}
            pictures.append(whole)
        sizes = [(int(wide), int(high)) for wide, high in self.objects.sizes[[rows[0] for rows in rows_of.values()]]]
        several = next(file for file, rows in rows_of.items() if len(rows) > 1)
        name = number_of(again, "row names", "rows name")
        remark = f"{name} an image again, such as {several}: its boxes are joined, and equal ones count once"
        remarks = (*self.remarks, remark)
        return replace(self, files=tuple(rows_of), objects=Objects.of(pictures, sizes), remarks=remarks)

    def in_order(self, classes: Sequence[str], where: str) -> Listed:
        """The same, with its classes at their places among those of another list."""
        index_of = {name: index for index, name in enumerate(classes)}
        columns = self.objects.rows.columns
        shown = [self.classes[label] for label in np.unique(columns["label"])]
        if odd := [name for name in shown if name not in index_of]:
            raise DataError(f"{where}: class {min(odd)!r} is none of {', '.join(classes[:8])}")
        places = np.array([index_of.get(name, -1) for name in self.classes], dtype=np.int64)
        rows = Ragged({**columns, "label": places[columns["label"]]}, self.objects.rows.lengths)
        return replace(self, objects=Objects(rows, self.objects.sizes), classes=tuple(classes))

    @property
    def note(self) -> str:
        """What was changed; empty for nothing."""
        remarks = list(self.remarks)
        if self.clipped:
            remarks.append(f"{self.clipped} box{'es' * (self.clipped != 1)} cut at the edge of an image")
        if self.dropped:
            remarks.append(f"{self.dropped} box{'es' * (self.dropped != 1)} without an area left out")
        return ", ".join(remarks)


def read_coco(path: Path, folder: Path | None = None, *, sort_ids: bool = False) -> Listed:
    """Images and objects of a COCO file.

    A class's index is the rank of its id among those in the file, whatever gaps there are. Roboflow's superclass, a
    category without objects that all others name as their ``supercategory``, is no class. Crowds are kept as such.
    Sorted by ids, images stand as pycocotools and GLIP, which draws few shots so, have them.
    """
    content = read_json(path)
    names = category_names(path, content)
    rank = ranked(names)
    images = by_id(objects(path, content, "images", least=1))
    if sort_ids:
        images = dict(sorted(images.items()))
    boxes: dict[int, list[_Box]] = {identity: [] for identity in images}
    for row in objects(path, content, "annotations"):
        image, label = row.known("image_id", images, "an image"), row.known("category_id", names, "a category")
        area = row.number("area", 0) if row.values.get("area") else 0.0
        crowd = row.values.get("iscrowd") is not None and row.integer("iscrowd", 0, 1) == 1
        boxes[image].append(_Box(_bbox(row), rank[label], area, crowd))
    sizes = [_size(row) for row in images.values()]
    _refuse_corners(path, list(boxes.values()), sizes)
    _refuse_shares(str(path), list(boxes.values()))
    files = _found(path, folder or path.parent, [row.path("file_name") for row in images.values()])
    return _listed(str(path), files, list(boxes.values()), sizes, tuple(names[number] for number in sorted(names)))


_JUDGED = 10
"""Boxes of a file from which on their form is judged."""
_BEYOND = 0.3
"""Share of boxes that lie beyond their images from which on they are taken for corners."""


def _refuse_corners(path: Path, boxes: Sequence[Sequence[_Box]], sizes: Sequence[Sides | None]) -> None:
    """Refuse boxes that are left, top, right and bottom: their areas say so, or that many lie beyond their images."""
    every = [(box, size) for listed, size in zip(boxes, sizes, strict=True) for box in listed if not box.crowd]
    corners = [box.corners for box, _ in every]
    if len(every) < _JUDGED or not all(right > left and bottom > top for left, top, right, bottom in corners):
        return
    areas = [(right - left) * (bottom - top) for left, top, right, bottom in corners]
    own = all(box.area and abs(box.area - area) <= 0.01 * area for (box, _), area in zip(every, areas, strict=True))
    own &= any(abs(box.area - box.corners[2] * box.corners[3]) > 0.01 * box.area for box, _ in every)
    known = [(box.corners, size) for box, size in every if size is not None]
    beyond = [left + wide > size[0] + 1 or top + high > size[1] + 1 for (left, top, wide, high), size in known]
    within = all(right <= size[0] + 1 and bottom <= size[1] + 1 for (_, _, right, bottom), size in known)
    if own or (known and within and sum(beyond) >= max(_BEYOND * len(every), 1)):
        shown = ", ".join(f"{number:g}" for number in corners[0])
        raise DataError(
            f"{path}: boxes such as [{shown}] look like left, top, right and bottom; COCO's are left, top, width and "
            "height: write them so"
        )


def _refuse_shares(where: str, boxes: Sequence[Sequence[_Box]]) -> None:
    """Refuse boxes that all lie in their images' first pixel: they are shares of the sides."""
    corners = [box.corners for listed in boxes for box in listed]
    if corners and all(left + wide <= 1 and top + high <= 1 for left, top, wide, high in corners):
        shown = ", ".join(f"{number:g}" for number in corners[0])
        raise DataError(
            f"{where}: all boxes, such as [{shown}] (left, top, width, height), lie in the first pixel; expected "
            "pixels, not shares of the sides"
        )


def read_voc(folder: Path) -> Listed:
    """Images and objects of a folder in which each image has a Pascal VOC file of its name."""
    annotations = {path.stem: path for path in sorted(folder.glob("*.xml"))}
    if not annotations:
        raise DataError(f"{folder} holds neither a COCO file nor Pascal VOC's .xml files")
    pictures = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix.lower() in PICTURES}
    missing = [stem for stem in annotations if stem not in pictures]
    if missing:
        raise DataError(
            f"{folder}: {number_of(len(missing), 'image of an .xml file is', 'images of .xml files are')} not there, "
            f"such as that of {missing[0]}.xml"
        )
    return listed_voc([(path, annotations.get(stem)) for stem, path in pictures.items()])


def listed_voc(pictures: Sequence[tuple[Path, Path | None]]) -> Listed:
    """Images and objects of Pascal VOC files, wherever they lie."""
    read = [voc(file) if file is not None else (None, []) for _, file in pictures]
    rank = ranked({thing.name for _, things in read for thing in things})
    boxes = [[_Box(thing.corners, rank[thing.name], crowd=thing.difficult) for thing in things] for _, things in read]
    where = next((str(file.parent) for _, file in pictures if file is not None), "")
    _refuse_shares(where, boxes)
    listed = _listed(where, [str(picture) for picture, _ in pictures], boxes, [size for size, _ in read], tuple(rank))
    difficult = sum(thing.difficult for _, things in read for thing in things)
    remark = f"{difficult} difficult objects count as neither found nor missed"
    return replace(listed, remarks=(*listed.remarks, remark)) if difficult else listed


class Thing(NamedTuple):
    """An object of a VOC file; VOC's own evaluation leaves difficult ones out."""

    name: str
    corners: Corners
    difficult: bool = False


def voc(path: Path) -> tuple[Sides | None, list[Thing]]:
    """The image's size, where the file gives one, and its objects; corners count from 1, the last pixel included."""
    tree, line_of = _parsed(path)
    size, things = tree.find("size"), []
    for node in (tree, size, *tree.findall("object"), *tree.findall("object/bndbox")):
        tags = [] if node is None else [child.tag for child in node if child.tag in _ONCE]
        if node is not None and (twice := [tag for tag in tags if tags.count(tag) > 1]):
            raise DataError(f"{path}, line {line_of[node]}: {node.tag} has {twice[0]!r} twice, expected it once")
    for node in tree.findall("object"):
        row = Row(path, line_of[node], {**_texts(node), **_texts(node.find("bndbox"))})
        left, top, right, bottom = (row.number(name) for name in ("xmin", "ymin", "xmax", "ymax"))
        if right < left or bottom < top:
            raise row.error("xmax", "a box with an area")
        difficult = "difficult" in row.values and row.integer("difficult", 0, 1) == 1
        corners = (left - 1, top - 1, right - (left - 1), bottom - (top - 1))
        things.append(Thing(row.text("name"), corners, difficult))
    texts = _texts(size)
    if size is None or texts.get("width", "0") == texts.get("height", "0") == "0":  # labelling tools write it for none
        return None, things
    return _sides(Row(path, line_of[size], texts)), things


def _texts(node: Element | None) -> dict[str, str]:
    """The texts of the children that have some, the first of each name."""
    texts: dict[str, str] = {}
    for child in node if node is not None else ():
        if child.text and child.text.strip():
            texts.setdefault(child.tag, child.text.strip())
    return texts


def _parsed(path: Path) -> tuple[Element, dict[Element, int]]:
    """An XML file as a tree, and each element's line; entities, which could fill the memory, are refused."""

    def refuse(*_: object) -> None:
        raise DataError(f"{path} declares an entity, which an annotation does not need")

    tree, parser = TreeBuilder(), expat.ParserCreate()
    line_of: dict[Element, int] = {}

    def start(name: str, attributes: dict[str, str]) -> None:
        line_of[tree.start(name, attributes)] = parser.CurrentLineNumber

    parser.StartElementHandler, parser.EndElementHandler = start, tree.end
    parser.CharacterDataHandler, parser.EntityDeclHandler = tree.data, refuse
    try:
        parser.Parse(read_bytes(str(path)), True)
    except expat.ExpatError as error:
        raise DataError(f"{path} is no XML: {error}") from error
    root: Element = tree.close()
    return root, line_of


def listed_yolo(pictures: Sequence[tuple[Path, Path | None]], classes: Sequence[str]) -> Listed:
    """Images and objects of YOLO's text files: a line for each object, its class and its box, or its outline.

    A line is ``CLASS X Y WIDTH HEIGHT`` in shares of the image's sides, with the box's middle, or
    ``CLASS X1 Y1 X2 Y2 X3 Y3 …``, whose box is the one round the outline. An image without objects has no file.
    """
    files = [str(picture) for picture, _ in pictures]
    sizes = [(frame or frame_of(file)).upright for file, frame in zip(files, frames_of(files), strict=True)]
    boxes: list[list[_Box]] = []
    lengths, long = set[int](), list[Row]()
    for (_, file), size in zip(pictures, sizes, strict=True):
        boxes.append([])
        for row in _yolo_rows(file) if file is not None else ():
            boxes[-1].append(_yolo_box(row, size, len(classes)))
            lengths.add(len(row.values))
            if len(lengths) == 1 and len(row.values) >= _LONG:
                long.append(row)
    if len(lengths) == 1 and long:
        _refuse_keypoints(long)
    once = [list(dict.fromkeys(listed)) for listed in boxes]
    listed = _listed("", files, once, [None] * len(files), tuple(classes))
    equal = sum(map(len, boxes)) - sum(map(len, once))
    remarks = [f"{number_of(equal, 'row')} left out, equal to another"] if equal else []
    if len(lengths) == 1 and (few := _FEW_POINTS.get(*lengths)):
        remarks.append(f"all rows have {few}, which are not read")
    return replace(listed, remarks=(*listed.remarks, *remarks))


def _yolo_rows(path: Path) -> list[Row]:
    lines = [line.split() for line in read_text(path).split("\n")]
    names = ["class", *map(str, range(1, max(map(len, lines), default=0)))]
    return [
        Row(path, number, dict(zip(names, cells, strict=False))) for number, cells in enumerate(lines, start=1) if cells
    ]


_POINTS = 10
"""Rows of YOLO from which on points are taken for keypoints, if all rows have the same number of them."""
_SPREAD = 0.3
"""Share of a box's sides over which the keypoints in it are spread."""
_LONG = 11
"""Fields of a row that may be a box with several keypoints."""
_FEW_POINTS = {
    7: "7 fields, read as outlines of 3 points; they may be boxes with 1 keypoint",
    9: "9 fields, read as outlines of 4 points, as turned boxes are; they may be boxes with 2 keypoints",
}
"""What is said of rows that nothing tells from boxes with keypoints, by their fields."""
_OF_KEYPOINTS = "looks like a box with keypoints, which are not read: write lines of CLASS X Y WIDTH HEIGHT"


def _refuse_keypoints(rows: Sequence[Row]) -> None:
    """Refuse boxes with keypoints behind them, whose numbers would pass for the points of an outline.

    All rows have the same number of fields. Every third number behind the box is 0, 1 or 2; or there are many rows, and
    the points of each lie in its box and fill it.
    """
    numbers = np.array([[row.number(f"{at}") for at in range(1, len(row.values))] for row in rows])
    box, rest = numbers[:, :4], numbers[:, 4:]
    if rest.shape[1] % 3 == 0:
        seen = rest[:, 2::3]
        if np.isin(seen, (0, 1, 2)).all() and (seen == 2).any():
            raise DataError(f"{rows[0].where} {_OF_KEYPOINTS}")
    if len(rows) < _POINTS or rest.shape[1] % 2:
        return
    points = rest.reshape(len(rest), -1, 2)
    shown = (points != 0).any(axis=2, keepdims=True)  # those that nobody marked are 0, 0
    inside = np.abs(points - box[:, None, :2]) <= box[:, None, 2:] / 2 + 0.01
    low, high = np.where(shown, points, np.inf).min(axis=1), np.where(shown, points, -np.inf).max(axis=1)
    if (inside | ~shown).all() and (high - low >= _SPREAD * box[:, 2:]).all():
        raise DataError(f"{rows[0].where} {_OF_KEYPOINTS}")


def _yolo_box(row: Row, size: tuple[int, int], count: int) -> _Box:
    cells = len(row.values)
    if cells != 5 and (cells < 7 or cells % 2 == 0):
        raise DataError(f"{row.where} has {cells} fields, expected a class and a box (5), or a class and an outline")
    label = row.integer("class", 0, count - 1)
    shares = [row.number(f"{number}", -1, 2) for number in range(1, cells)]
    if len(shares) == 4:
        wide, high = shares[2] * size[0], shares[3] * size[1]
        return _Box((shares[0] * size[0] - wide / 2, shares[1] * size[1] - high / 2, wide, high), label)
    across, down = shares[0::2], shares[1::2]
    left, top = min(across) * size[0], min(down) * size[1]
    return _Box((left, top, max(across) * size[0] - left, max(down) * size[1] - top), label)


def _listed(
    where: str,
    files: Sequence[str],
    boxes: Sequence[Sequence[_Box]],
    sizes: Sequence[Sides | None],
    classes: tuple[str, ...],
) -> Listed:
    """Boxes within their upright images; those without an area are left out."""
    places, remarks = places_of(where, files, sizes, [[box.corners for box in listed] for listed in boxes])
    clipped = dropped = 0
    pictures: list[dict[str, list[Any]]] = []
    for listed, place in zip(boxes, places, strict=True):
        pictures.append({"box": [], "label": [], "area": [], "crowd": []})
        for raw, label, area, crowd in listed:
            box, cut = _inside(place.box(raw), place.size)
            if box is None:
                dropped += 1
                continue
            clipped += cut
            own_area = place.area(area) if area and not cut else box[2] * box[3]
            for name, value in zip(pictures[-1], (box, label, own_area, crowd), strict=True):
                pictures[-1][name].append(value)
    objects = Objects.of(pictures, [place.size for place in places])
    return Listed(tuple(files), objects, classes, clipped, dropped, tuple(remarks))


def category_names(path: Path, content: Any) -> dict[int, str]:
    """Names by id, without Roboflow's superclass; blank ones are called `UNNAMED`, and doubles get their id."""
    rows = objects(path, content, "categories", least=1)
    used = {row.integer("category_id") for row in objects(path, content, "annotations")}
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


def _bbox(row: Row) -> Corners:
    raw = row.values.get("bbox")
    if not isinstance(raw, list) or len(raw) != 4 or any(isinstance(value, str | bool) for value in raw):
        raise row.error("bbox", "four numbers: left, top, width, height")
    left, top, wide, high = (Row(row.file, row.line, {"bbox": value}, row.unit).number("bbox") for value in raw)
    return left, top, wide, high


def _inside(box: Corners, size: tuple[int, int]) -> tuple[Corners | None, bool]:
    """A box cut at the edges of its image, or None where nothing is left, and whether it was cut by over a pixel."""
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


def _sides(row: Row) -> tuple[int, int]:
    return row.integer("width", 1, _WIDEST), row.integer("height", 1, _WIDEST)


def _size(row: Row) -> Sides | None:
    """A COCO image's width and height, where the file says them."""
    named = row.values.get("width") is not None and row.values.get("height") is not None
    return _sides(row) if named else None


def _found(path: Path, folder: Path, names: Sequence[str]) -> tuple[str, ...]:
    present = Files(folder)
    missing = [name for name in names if ".." in Path(name).parts or name not in present]
    if missing:
        raise DataError(f"{path}: {len(missing)} of {len(names)} images are not in {folder}, such as {missing[0]!r}")
    return tuple(str(folder / name) for name in names)


class BoxSplits(NamedTuple):
    """Three lists, what a reader must know of them, and how their sizes differ from the published ones."""

    train: Listed
    validation: Listed
    test: Listed
    note: str = ""
    missing: str = ""

    @property
    def named(self) -> dict[str, Listed]:
        """The lists by their splits."""
        return {"train": self.train, "validation": self.validation, "test": self.test}


def boxed_originals(
    expected: str,
    find: Callable[[Path], Place],
    read: Callable[[Place], BoxSplits],
    checked: Sequence[str] = ("train", "validation", "test"),
) -> Originals[Place]:
    """Originals whose samples are images with objects; the splits that are checked have to show some."""

    def check(where: Place) -> None:
        splits = read(where).named
        for name in checked:
            if not splits[name].objects.counts(len(splits[name].classes)).sum():
                raise DataError(f"{splits[name].files[0]} and the others of the {name} split show no object")

    def load(where: Place, request: DataRequest) -> Data[Objects]:
        """Images stay in their files; the whole image is scaled to a square, and boxes keep their own pixels."""
        content = read(where)
        splits, notes = [], [content.note]
        lists = {name: [Sample(file) for file in listed.files] for name, listed in content.named.items()}
        copies = near_known(lists) if request.note_near and not request.drop_near else None
        chosen, remark = without_near(lists) if request.drop_near else (lists, "")
        notes += [remark, "" if copies is None else copies.sentence]
        for name, listed in content.named.items():
            stay = {sample.source for sample in chosen[name]}
            rows = [row for row, file in enumerate(listed.files) if file in stay][: request.limit]
            if not rows and listed.files:
                raise DataError(f"{where}: the {name} split has no images but near copies of test images")
            if request.skip_unreadable:
                pictures = Pictures.of([listed.files[row] for row in rows], request.size, "whole")
                rows, remark = readable(rows, pictures, name)
                notes.append(remark)
            part = listed.take(rows)
            shown = [Sample(file) for file in part.files] if name == "test" else []
            columns = {} if copies is None else near_column(shown, copies)
            splits.append(Split(Pictures.of(part.files, request.size, "whole"), part.objects, columns=columns))
        return Data(splits[0], splits[1], splits[2], content.train.classes, "; ".join(filter(None, notes)))

    def parts(where: Place) -> Parts:
        content = read(where)
        train, validation, test = ([Sample(file) for file in listed.files] for listed in content.named.values())
        boxes = hashlib.sha256()
        for listed in content.named.values():
            listed.objects.note_in(boxes)
        return Parts(train, test, validation, content.train.classes, content.note, content.missing, boxes.digest())

    return Originals(expected, find, check, load, parts)


def remarks_of(splits: Mapping[str, Listed]) -> list[str]:
    """What was changed of each split's boxes."""
    return [": ".join(filter(None, [name, listed.note])) for name, listed in splits.items() if listed.note]
