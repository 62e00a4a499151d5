"""ODinW's 35 detection sets, as their archives unpack: Roboflow's exports in one form or the other.

``ORIGINALS`` are attributes by the set's id, with ``@valid`` behind it to score the validation split, as some published
tables do. Where a set says nothing of validation, or its validation split is the one that is scored, a tenth of the
training images validates.

Source: GLIP's configurations and data loaders, from which ELEVATER's suite takes roots, files and splits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from numpy.random import default_rng

from gate_data.boxes.files import (
    UNNAMED,
    BoxSplits,
    Listed,
    boxed_originals,
    category_names,
    read_coco,
    read_voc,
    remarks_of,
)
from gate_data.errors import DataError
from gate_data.original_files import Originals
from gate_data.readers.tables import read_json
from gate_data.tables import read_table

SETS: dict[str, dict[str, Any]] = {about_set["id"]: about_set for about_set in read_table("odinw")["sets"]}
_ABOVE = ("odinw", "ODinW", "odinw_35", "odinw/odinw_35", "odinw13", ".")
_FILES = ("annotations_without_background.json", "new_annotations_without_background.json", "_annotations.coco.json")
_SHARE, _SEED = 0.1, 0


class Place(NamedTuple):
    """A set's folder."""

    id: str
    folder: Path


def __getattr__(name: str) -> Originals[Place]:
    identity, _, split = name.partition("@")
    if identity not in SETS or split not in ("", "valid"):
        raise AttributeError(f"ODinW has no set {name!r}")
    read = partial(splits, scored=split or "test")
    parts = "the annotations of train, val and test" if SETS[identity]["flat"] else "train/, valid/ and test/"
    expected = f"odinw/{SETS[identity]['root']}/ with {parts}"
    return boxed_originals(expected, partial(find, identity, expected), read, checked=("test",))


def find(identity: str, expected: str, root: Path) -> Place:
    """The set's folder under a data root."""
    named = SETS[identity]["root"]
    for above in _ABOVE:
        folder = root / above / named
        if _list_of(folder, identity, "train") is not None:
            return Place(identity, folder)
    raise DataError(f"{root} does not hold its files ({expected})")


def splits(where: Place, scored: str = "test") -> BoxSplits:
    """All three lists of a set, validation drawn from training where there is none besides the one that is scored."""
    about = SETS[where.id]
    train = _read(where, "train", ())
    assert train is not None
    valid = _read(where, "valid", train.classes)
    tested = valid if scored == "valid" or about["test_is_valid"] else _read(where, "test", train.classes)
    if tested is None:
        raise DataError(f"{where.folder} has no {scored} split")
    remarks = [f"split {'valid' if tested is valid else 'test'}"]
    held = _read(where, "mini_val", train.classes) if about["mini_val"] and tested is not valid else None
    held = held or (valid if tested is not valid else None)
    if held is None:
        rows = default_rng(_SEED).permutation(len(train.files))
        count = max(1, round(_SHARE * len(rows)))
        if len(rows) < 2:
            raise DataError(f"{where.folder}: {len(rows)} training image, of which none can validate")
        held, train = train.take(sorted(rows[:count].tolist())), train.take(sorted(rows[count:].tolist()))
        remarks.append(f"{count} training images validate")
    remarks += remarks_of({"train": train, "validation": held, "test": tested})
    missing = _differences(about, train, held, tested, drawn=len(remarks) > 1 and "validate" in remarks[1])
    return BoxSplits(train, held, tested, "; ".join([*remarks, *missing]), "; ".join(missing))


def prepared(root: Path, identity: str, split: str, shots: int, seed: int) -> tuple[Path, list[str]] | None:
    """ELEVATER's own draw of a set's training or validation images, where its file lies there."""
    where = find(identity, "", root)
    about = SETS[identity]
    inside = {"train": ("train",), "val": ("valid", "mini_val")}[split]
    folders = [where.folder] if about["flat"] else [where.folder / inner for inner in inside]
    for folder in folders:
        for part in ("minival", "val") if split == "val" else ("train",):
            path = folder / f"fewshot_{part}_shot{shots}_seed{seed}.json"
            if path.is_file():
                listed = read_json(path).get("images")
                if not isinstance(listed, list) or not all(isinstance(inner, dict) for inner in listed):
                    raise DataError(f"{path}: 'images' is no list of objects")
                return path, [str(inner.get("file_name")) for inner in listed]
    return None


class FileIds(NamedTuple):
    """Ids of a COCO file: of images by file name, of categories by class name."""

    images: dict[str, int]
    categories: dict[str, int]


def file_ids(root: Path, identity: str, split: str) -> FileIds | None:
    """Return the ids by which a submission names images and categories of a split; None where it is Pascal VOC's."""
    where = find(identity, "", root)
    name = "valid" if split == "valid" or SETS[identity]["test_is_valid"] else "test"
    path = _list_of(where.folder, identity, name)
    if path is None or path.is_dir():
        return None
    content = read_json(path)
    images = {Path(str(row["file_name"])).name: int(row["id"]) for row in content["images"]}
    order = _list_of(where.folder, identity, "train")
    shown = {label: number for number, label in category_names(path, content).items()}
    if order is not None and not order.is_dir():  # classes of training without an object here have ids, too
        shown = {label: number for number, label in category_names(order, read_json(order)).items()} | shown
    return FileIds(images, shown)


def captions(identity: str) -> Mapping[str, Mapping[str, str]]:
    """By class name, what GLIP's configurations read instead: ``prefix``, ``name``, ``suffix``."""
    return dict(SETS[identity].get("captions", {}))


def _read(where: Place, split: str, order: Sequence[str]) -> Listed | None:
    path = _list_of(where.folder, where.id, split)
    if path is None:
        return None
    read = read_voc(path) if path.is_dir() else read_coco(path, sort_ids=True)
    return read.in_order(order, str(path)) if order else read


def _list_of(folder: Path, identity: str, split: str) -> Path | None:
    """The file with a split's annotations, or the folder with its Pascal VOC files."""
    if SETS[identity]["flat"]:
        path = folder / f"{'val' if split == 'valid' else split}_annotations_without_background.json"
        return path if path.is_file() else None
    for name in _FILES:
        if (folder / split / name).is_file():
            return folder / split / name
    inside = folder / split
    return inside if inside.is_dir() and next(inside.glob("*.xml"), None) is not None else None


def _differences(about: Mapping[str, Any], train: Listed, held: Listed, tested: Listed, *, drawn: bool) -> list[str]:
    """Where the lists are not those that were published."""
    remarks = []
    count = len(train.files) + (len(held.files) if drawn else 0)
    if count != about["train"]:
        remarks.append(f"{count} training images, {about['train']} published")
    if len(tested.files) not in (about["test"], about["valid"]):
        remarks.append(f"{len(tested.files)} scored images, {about['test']} published")
    expected = [name if name.strip() else UNNAMED for name in about["classes"]]
    renamed = [captions(about["id"]).get(name, {}).get("name", name) for name in expected]
    if list(train.classes) not in (expected, renamed):
        odd = [name for name in train.classes if name not in expected and name not in renamed]
        remarks.append(f"class names are not the published ones{f', such as {odd[0]!r}' if odd else ''}")
    return remarks
