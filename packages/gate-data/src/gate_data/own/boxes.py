"""Boxes of one's own, in COCO's form, to be found by a detector: read, checked, and split by picture."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from gate_data.boxes.files import Listed, read_coco
from gate_data.boxes.objects import Objects
from gate_data.data import Data, Split
from gate_data.errors import DataError
from gate_data.original_files import Originals, Parts, Sample, readable
from gate_data.own.lists import named_classes, shown_names
from gate_data.own.spec import OwnBenchmark
from gate_data.pictures import Pictures
from gate_data.readers import held_out
from gate_data.request import DataRequest

_NAMES = ("train", "validation", "test")


def boxed(own: OwnBenchmark, path: Path) -> Originals[Path]:
    """How a benchmark of boxes is read.

    Args:
        own: what its file says; ``data.table`` is one COCO file for all pictures, or ``splits`` name one each.
        path: of the benchmark's file.

    Returns:
        The originals. Splits that are not given are drawn picture by picture.

    Raises:
        DataError: data that are no COCO file, or fields that mean nothing for boxes; the message names them.
    """
    if own.data.kind != "coco":
        raise DataError(f'{path}: detection needs kind = "coco" under [data], not {own.data.kind!r}')
    if own.splits.group or own.splits.column:
        raise DataError(f"{path}: [splits] group and column are of tables; give detection a COCO file for each split")
    lists = partial(_lists, own)
    return Originals(
        f"what {path.name} names",
        lambda root: root,
        lambda root: _check(lists(root)),
        lambda root, request: _load(lists(root), request),
        lambda root: _parts(lists(root)),
    )


def _lists(own: OwnBenchmark, folder: Path) -> dict[str, Listed]:
    root = folder / own.data.root
    given = {name: file for name in _NAMES if (file := getattr(own.splits, name))}
    if not given and not own.data.table:
        raise DataError("field 'data.table' is missing: the COCO file of all pictures, or one per split under [splits]")
    if given and "train" not in given:
        raise DataError(f"[splits] names {', '.join(given)} but no train")
    known = named_classes(own, folder) or None
    read = {"train": read_coco(folder / given.get("train", own.data.table), root, known)}
    for name in list(given)[1:]:
        one = read_coco(folder / given[name], root)
        odd = sorted(set(one.classes) - set(read["train"].classes))
        if odd:
            raise DataError(f"{folder / given[name]}: class {odd[0]!r} is none of the training split's")
        read[name] = read_coco(folder / given[name], root, read["train"].classes)
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
        for name in _NAMES
    }


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
