"""Boxes of one's own, in COCO's, VOC's or YOLO's form, to be found by a detector: read, checked, split by picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from gate_data.boxes.files import (
    BoxSplits,
    Listed,
    boxed_originals,
    listed_voc,
    listed_yolo,
    read_coco,
    remarks_of,
    voc_names,
)
from gate_data.errors import DataError
from gate_data.original_files import Originals
from gate_data.own.annotated import SPLITS, annotated, root_of
from gate_data.own.class_names import named_classes, shown_names
from gate_data.own.spec import OwnBenchmark
from gate_data.readers import held_out


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
    if "" in read:
        read = {"train": read[""]}
    elif "train" not in read:
        raise DataError(f"[splits] names {', '.join(read)} but no train")
    for name, share in (("test", own.splits.test_share), ("validation", own.splits.validation_share)):
        if name not in read:
            train = read["train"]
            stay, held = held_out([0] * len(train.files), share, seed=own.splits.seed)
            if not held or not stay:
                raise DataError(f"{len(train.files)} pictures are too few to draw {name} from")
            read["train"], read[name] = train.take(stay), train.take(held)
    shown = shown_names(own, folder, read["train"].classes)
    train, validation, test = (replace(read[name], classes=shown) for name in SPLITS)
    return BoxSplits(train, validation, test, "; ".join(remarks_of({name: read[name] for name in SPLITS})))


def read_boxes(own: OwnBenchmark, folder: Path) -> dict[str, Listed]:
    """The boxes of each split that a benchmark's file names; all under ``""`` where it names none."""
    classes = named_classes(own, folder) or None
    if own.data.kind == "coco":
        return _of_coco(own, folder, classes)
    pairs = annotated(own, folder, needed=False)
    if own.data.kind == "voc":
        classes = classes or _voc_names(pairs)
        return {split: listed_voc(annotations, classes) for split, annotations in pairs.items()}
    if classes is None:
        raise DataError("field 'classes.names' is missing: a name for each number of YOLO's files")
    return {split: listed_yolo(annotations, classes) for split, annotations in pairs.items()}


def _of_coco(own: OwnBenchmark, folder: Path, classes: tuple[str, ...] | None) -> dict[str, Listed]:
    files = own.splits.named
    if not files and not own.data.table:
        raise DataError("field 'data.table' is missing: the COCO file of all pictures, or one per split under [splits]")
    if not files:
        return {"": read_coco(folder / own.data.table, root_of(own, folder), classes)}
    if "train" not in files:
        raise DataError(f"[splits] names {', '.join(files)} but no train")
    read = {"train": read_coco(folder / files["train"], root_of(own, folder, "train"), classes)}
    for name in list(files)[1:]:
        first = read_coco(folder / files[name], root_of(own, folder, name))
        odd = sorted(set(first.classes) - set(read["train"].classes))
        if odd:
            raise DataError(f"{folder / files[name]}: class {odd[0]!r} is none of the training split's")
        read[name] = read_coco(folder / files[name], root_of(own, folder, name), read["train"].classes)
    return read


def _voc_names(pairs: Mapping[str, Sequence[tuple[Path, Path | None]]]) -> tuple[str, ...]:
    """Of all splits, sorted; with none in test or validation that training lacks."""
    names = {
        split: {name for _, file in annotations if file is not None for name in voc_names(file)}
        for split, annotations in pairs.items()
    }
    for split, held in names.items():
        if split and "train" in names and (odd := sorted(held - names["train"])):
            raise DataError(f"class {odd[0]!r} of {split} is none of the training split's")
    return tuple(sorted(set().union(*names.values())))
