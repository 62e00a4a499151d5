"""Boxes with classes, as PASCAL VOC writes them, and what COCO's rows say; COCO's files see `gate_data.boxes.files`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from gate_data.errors import DataError
from gate_data.readers.limits import refuse_special
from gate_data.readers.tables import Row

_WIDEST = 2**31 - 1
"""Pixels of a picture's side, as formats of pictures hold them."""


class Box(NamedTuple):
    """A box in pixels, from the picture's upper left corner, and its class."""

    left: float
    top: float
    right: float
    bottom: float
    label: int
    difficult: bool = False


class Boxed(NamedTuple):
    """A picture's file name, its size where the file says it, and its boxes."""

    file: str
    size: tuple[int, int] | None
    boxes: tuple[Box, ...]


def voc(path: Path, index_of: Mapping[str, int]) -> Boxed:
    """Boxes of one PASCAL VOC file; its corners count from 1 and include the last pixel."""
    tree = _parsed(path)
    size = next(tree.find("size"), None)
    boxes = []
    for entry, node in enumerate(tree.find("object")):
        row = Row(path, entry, {**node.texts(), **next(node.find("bndbox"), _Node()).texts()})
        left, top, right, bottom = (row.number(name) for name in ("xmin", "ymin", "xmax", "ymax"))
        if right < left or bottom < top:
            raise row.error("xmax", "a box with an area")
        difficult = row.values.get("difficult") == "1"
        boxes.append(Box(left - 1, top - 1, right, bottom, row.one_of("name", index_of), difficult))
    sides = None
    if size is not None:
        row = Row(path, 0, size.texts())
        sides = (row.integer("width", 1, _WIDEST), row.integer("height", 1, _WIDEST))
    return Boxed(Row(path, 0, tree.texts()).text("filename"), sides, tuple(boxes))


def voc_names(path: Path) -> tuple[str, ...]:
    """Names of classes in one PASCAL VOC file, in its order."""
    rows = (Row(path, entry, node.texts()) for entry, node in enumerate(_parsed(path).find("object")))
    return tuple(dict.fromkeys(row.text("name") for row in rows))


def is_crowd(row: Row) -> bool:
    """Whether a COCO object is a crowd; left out, it is none."""
    return row.values.get("iscrowd") is not None and row.integer("iscrowd", 0, 1) == 1


def size_of(row: Row) -> tuple[int, int] | None:
    """Width and height of a COCO picture, where the file says them."""
    if row.values.get("width") is None or row.values.get("height") is None:
        return None
    return row.integer("width", 1, _WIDEST), row.integer("height", 1, _WIDEST)


class _Node:
    """An element: its name, text and children."""

    def __init__(self, name: str = "") -> None:
        self.name, self.text = name, ""
        self.children: list[_Node] = []

    def find(self, name: str) -> Iterator[_Node]:
        return (child for child in self.children if child.name == name)

    def texts(self) -> dict[str, str]:
        """The texts of the children that have some, the first of each name."""
        texts: dict[str, str] = {}
        for child in self.children:
            if child.text.strip():
                texts.setdefault(child.name, child.text.strip())
        return texts


def _parsed(path: Path) -> _Node:
    """An XML file as a tree. Entities are refused: a few lines of them would fill the memory."""
    root = _Node()
    stack = [root]

    def begin(name: str, _: object) -> None:
        node = _Node(name)
        stack[-1].children.append(node)
        stack.append(node)

    def text(value: str) -> None:
        stack[-1].text += value

    def refuse(*_: object) -> None:
        raise DataError(f"{path} declares an entity, which an annotation does not need")

    parser = expat.ParserCreate()
    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda _: stack.pop()
    parser.CharacterDataHandler = text
    parser.EntityDeclHandler = refuse
    refuse_special(path)
    try:
        parser.Parse(path.read_bytes(), True)
    except FileNotFoundError as error:
        raise DataError(f"{path} is not there") from error
    except expat.ExpatError as error:
        raise DataError(f"{path} is no XML: {error}") from error
    return root.children[0]
