"""From a benchmark's file to a way of reading what it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gate_data.collecting import without_collector
from gate_data.errors import DataError
from gate_data.original_files import MAP_SIDE, Form, Originals, Parts, splits_of, to_data
from gate_data.own.lists import parts_of
from gate_data.own.reading import read_benchmark
from gate_data.own.spec import OwnBenchmark
from gate_data.readers import IGNORED, ClassMap, Member, spread
from gate_data.readers.decode import open_picture
from gate_data.request import DataRequest

if TYPE_CHECKING:  # it imports torch, which whoever only lists files does without
    from gate_data.data import Data

_SIZED, _SMALLEST, _STEP = 32, 32, 16
"""Class maps whose sizes are looked at; the least side that is made of them, and what it is a multiple of."""
_BOXES = ("coco", "voc", "yolo")
_FORMS: Mapping[str, Literal["labels", "map", "value"]] = {
    "multi-label": "labels",
    "segmentation": "map",
    "regression": "value",
    "video-regression": "value",
}


def originals_of(path: Path, *, skip_missing: bool = False) -> Originals[Path]:
    """How a benchmark's file is read: found, checked and loaded like a data set's original files.

    Args:
        path: of the TOML file.
        skip_missing: whether files that are not there are left out by its check, as a request that skips what cannot be
            read has it.

    Returns:
        The originals; their root is the file's folder.

    Raises:
        DataError: the file is wrong; the message names its line.

    Example:
        >>> from pathlib import Path
        >>> originals_of(Path("mine.toml")).find(Path())  # doctest: +SKIP
    """
    return originals_from(read_benchmark(path), path, skip_missing=skip_missing)


def originals_from(own: OwnBenchmark, path: Path, *, skip_missing: bool = False) -> Originals[Path]:
    """How what a benchmark's file says is read, where no such file need be there.

    Args:
        own: what the file would say.
        path: the file's place, in errors and for the paths in it.
        skip_missing: see `originals_of`.

    Returns:
        The originals; their root is the file's folder.

    Raises:
        DataError: fields that do not fit one another.

    Example:
        >>> from gate_data.own import guess
        >>> values = guess(Path("birds")).values  # doctest: +SKIP
        >>> own = OwnBenchmark.model_validate(values)  # doctest: +SKIP
        >>> originals_from(own, Path("birds/benchmark.toml")).find(Path())  # doctest: +SKIP
    """
    task = own.samples
    if task == "detection":
        from gate_data.own.boxes import boxed

        return boxed(own, path)
    form = Form(
        target=_FORMS.get(task, "class"),
        share=own.splits.validation_share,
        grouped=bool(own.splits.group),
        # boxes are cut out, and class maps show whole pictures
        fit="whole" if task == "segmentation" or (own.data.kind in _BOXES and task != "image-text") else "crop",
        trained=task not in ("zero-shot", "pair-scoring"),
        maps=_class_map(own, path) if task == "segmentation" else None,
    )

    def parts(root: Path, skip: bool = skip_missing) -> Parts:
        with without_collector():
            return parts_of(own, root, skip_missing=skip)

    def check(root: Path) -> None:
        splits_of(parts(root), form, str(root))

    def load(root: Path, request: DataRequest) -> Data[Any]:
        lists = parts(root, request.skip_unreadable)
        shaped = replace(form, map_side=_map_side(lists)) if task == "segmentation" else form
        return to_data(lists, shaped, request, str(root))

    return Originals(
        f"what {path.name} names",
        lambda root: root,
        check,
        load,
        parts,
        form,
    )


def _map_side(parts: Parts) -> int:
    """A side for all class maps: that of the largest of a few, up to `MAP_SIDE`. Small maps gain nothing by more."""
    largest = _SMALLEST
    for row in spread([0] * len(parts.train), _SIZED):
        source = parts.train[row].target
        if not isinstance(source, str | Member):
            return MAP_SIDE
        with open_picture(source) as image:
            largest = max(largest, *image.size)
    return min(MAP_SIDE, -(-largest // _STEP) * _STEP)


def _class_map(own: OwnBenchmark, path: Path) -> ClassMap:
    names, values, colours = own.classes.names, own.classes.values, own.classes.colours
    if len(names) < 2:
        raise DataError(f"{path}: field 'classes.names' is missing: a name for each value of the class maps")
    for field, listed in (("values", values), ("colours", colours)):
        if listed and len(listed) != len(names):
            raise DataError(f"{path}: field 'classes.{field}' has {len(listed)} entries for {len(names)} names")
    if colours:
        return ClassMap(
            {index: index for index in range(len(names))},
            others=IGNORED,
            colours={colour: index for index, colour in enumerate(colours)},
        )
    numbers = values or tuple(range(len(names)))
    ignored = [value for value in own.data.ignored if value not in numbers]
    return ClassMap({value: index for index, value in enumerate(numbers)}, ignored, None)
