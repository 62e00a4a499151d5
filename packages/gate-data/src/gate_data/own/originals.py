"""From a benchmark's file to a way of reading what it names."""

from __future__ import annotations

from pathlib import Path

from gate_data.errors import DataError
from gate_data.original_files import Originals, from_lists
from gate_data.own.lists import parts_of
from gate_data.own.reading import read_benchmark
from gate_data.own.spec import OwnBenchmark
from gate_data.readers import ClassMap

_FORMS = {"multi-label": "labels", "segmentation": "map", "video-regression": "value"}


def originals_of(path: Path) -> Originals[Path]:
    """How a benchmark's file is read: found, checked and loaded like a data set's original files.

    Args:
        path: of the TOML file.

    Returns:
        The originals; their root is the file's folder.

    Raises:
        DataError: the file is wrong; the message names its line.

    Example:
        >>> from pathlib import Path
        >>> originals_of(Path("mine.toml")).find(Path())  # doctest: +SKIP
    """
    return originals_from(read_benchmark(path), path)


def originals_from(own: OwnBenchmark, path: Path) -> Originals[Path]:
    """How what a benchmark's file says is read, where no such file need be there.

    Args:
        own: what the file would say.
        path: the file's place, in errors and for the paths in it.

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
    task = own.benchmark.task
    if task == "detection":
        from gate_data.own.boxes import boxed

        return boxed(own, path)
    maps = None
    if task == "segmentation":
        names = own.classes.names
        if len(names) < 2:
            raise DataError(f"{path}: field 'classes.names' is missing: a name for each value of the class maps")
        maps = ClassMap({value: value for value in range(len(names))}, own.data.ignored, None)
    return from_lists(
        f"what {path.name} names",
        lambda root: root,
        lambda root: parts_of(own, root),
        target=_FORMS.get(task, "class"),
        share=own.splits.validation_share,
        grouped=bool(own.splits.group),
        fit="whole" if own.data.kind == "coco" and task != "image-text" else "crop",  # boxes are cut out
        trained=task not in ("zero-shot", "pair-scoring"),
        maps=maps,
    )
