"""Boxes of one's own, in COCO's, VOC's or YOLO's form, to be found by a detector: read, checked, split by picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from gate_data.boxes.files import Listed, listed_voc, listed_yolo, read_coco
from gate_data.boxes.objects import Objects
from gate_data.data import Data, Split
from gate_data.errors import DataError
from gate_data.original_files import Originals, Parts, Sample, readable
from gate_data.own.annotated import SPLITS, annotated, root_of
from gate_data.own.class_names import named_classes, shown_names
from gate_data.own.spec import OwnBenchmark
from gate_data.pictures import Pictures
from gate_data.readers import held_out
from gate_data.readers.boxes import voc_names
from gate_data.request import DataRequest


def boxed(own: OwnBenchmark, path: Path) -> Originals[Path]:
    """How a benchmark of boxes is read.

    Args:
        own: what its file says; of COCO, ``data.table`` is one file for all pictures, or ``splits`` name one each.
        path: of the benchmark's file.
    """
    if own.data.kind not in ("coco", "voc", "yolo"):
        raise DataError(f'{path}: detection needs kind = "coco", "voc" or "yolo" under [data], not {own.data.kind!r}')
    if own.splits.group or own.splits.column:
        raise DataError(f"{path}: [splits] group and column are of tables; boxes have a file or folder for each split")
    lists = partial(_lists, own)
    return Originals(
        f"what {path.name} names",
        lambda root: root,
        lambda root: _check(lists(root)),
        lambda root, request: _load(lists(root), request),
        lambda root: _parts(lists(root)),
    )


def objects_of(own: OwnBenchmark, folder: Path) -> tuple[list[int], list[int]]:
    """Objects of each class, of all splits and of the test."""
    lists = _lists(own, folder)
    counts = {name: listed.objects.counts(len(listed.classes)) for name, listed in lists.items()}
    return [int(one) for one in sum(counts.values())], [int(one) for one in counts["test"]]  # type: ignore[union-attr]


def _lists(own: OwnBenchmark, folder: Path) -> dict[str, Listed]:
    read = read_boxes(own, folder)
    if "" in read:
        read = {"train": read[""]}
    elif "train" not in read:
        raise DataError(f"[splits] names {', '.join(read)} but no train")
    for name, share in (("test", own.splits.test_share), ("validation", own.splits.validation_share)):
        if name not in read:
            here = read["train"]
            stay, taken = held_out([0] * len(here.files), share, seed=own.splits.seed)
            if not taken or not stay:
                raise DataError(f"{len(here.files)} pictures are too few to draw {name} from")
            read["train"], read[name] = here.take(stay), here.take(taken)
    shown = shown_names(own, folder, read["train"].classes)
    return {
        name: Listed(read[name].files, read[name].objects, shown, read[name].clipped, read[name].dropped)
        for name in SPLITS
    }


def read_boxes(own: OwnBenchmark, folder: Path) -> dict[str, Listed]:
    """The boxes of each split that a benchmark's file names; all under ``""`` where it names none."""
    known = named_classes(own, folder) or None
    if own.data.kind == "coco":
        return _of_coco(own, folder, known)
    pairs = annotated(own, folder, needed=False)
    if own.data.kind == "voc":
        known = known or _voc_names(pairs)
        return {split: listed_voc(some, known) for split, some in pairs.items()}
    if known is None:
        raise DataError("field 'classes.names' is missing: a name for each number of YOLO's files")
    return {split: listed_yolo(some, known) for split, some in pairs.items()}


def _of_coco(own: OwnBenchmark, folder: Path, known: tuple[str, ...] | None) -> dict[str, Listed]:
    given = {name: file for name in SPLITS if (file := getattr(own.splits, name))}
    if not given and not own.data.table:
        raise DataError("field 'data.table' is missing: the COCO file of all pictures, or one per split under [splits]")
    if not given:
        return {"": read_coco(folder / own.data.table, root_of(own, folder), known)}
    if "train" not in given:
        raise DataError(f"[splits] names {', '.join(given)} but no train")
    read = {"train": read_coco(folder / given["train"], root_of(own, folder, "train"), known)}
    for name in list(given)[1:]:
        one = read_coco(folder / given[name], root_of(own, folder, name))
        odd = sorted(set(one.classes) - set(read["train"].classes))
        if odd:
            raise DataError(f"{folder / given[name]}: class {odd[0]!r} is none of the training split's")
        read[name] = read_coco(folder / given[name], root_of(own, folder, name), read["train"].classes)
    return read


def _voc_names(pairs: Mapping[str, Sequence[tuple[Path, Path | None]]]) -> tuple[str, ...]:
    """Of all splits, sorted; with none in test or validation that training lacks."""
    names = {
        split: {name for _, file in some if file is not None for name in voc_names(file)}
        for split, some in pairs.items()
    }
    for split, held in names.items():
        if split and "train" in names and (odd := sorted(held - names["train"])):
            raise DataError(f"class {odd[0]!r} of {split} is none of the training split's")
    return tuple(sorted(set().union(*names.values())))


def _check(lists: dict[str, Listed]) -> None:
    for name, one in lists.items():
        if not one.objects.counts(len(one.classes)).sum():
            raise DataError(f"{one.files[0]} and the others of the {name} split show no object")


def _load(lists: dict[str, Listed], request: DataRequest) -> Data[Objects]:
    splits, notes = [], []
    for name, one in lists.items():
        chosen = list(range(len(one.files)))[: request.limit]
        if request.skip_unreadable:
            chosen, said = readable(
                chosen, Pictures.of([one.files[row] for row in chosen], request.size, "whole"), name
            )
            notes += [said] if said else []
        some = one.take(chosen)
        notes += [f"{name}: {one.note}"] if one.note else []
        splits.append(Split(Pictures.of(some.files, request.size, "whole"), some.objects))
    return Data(splits[0], splits[1], splits[2], lists["train"].classes, "; ".join(notes))


def _parts(lists: dict[str, Listed]) -> Parts:
    samples = {name: [Sample(file) for file in one.files] for name, one in lists.items()}
    return Parts(samples["train"], samples["test"], samples["validation"], lists["train"].classes)
