"""From a benchmark's file to a record that runs like any other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_runner.benchmarks.benchmark import Benchmark
from gate_runner.errors import DataError
from gate_runner.own_data.reading import read_benchmark

if TYPE_CHECKING:
    from gate_runner.benchmarks.original_files import Originals

_METRICS = {
    "image-classification": ("acc@1",),
    "zero-shot": ("acc@1",),
    "multi-label": ("average_precision", "roc_auc"),
    "segmentation": ("miou",),
    "relational": ("acc@1",),
    "video-classification": ("acc@1",),
    "video-regression": ("mae", "mse"),
    "pair-scoring": ("group", "text", "image"),
}
_RECIPE = {"lr": 1e-2, "steps": 600, "batch_size": 128, "validate_every": 50}
_TRANSFORMER = {"lr": 1e-3, "steps": 400, "batch_size": 32, "validate_every": 50}
_RECIPES: Mapping[str, Mapping[str, Any]] = {
    "image-classification": {},  # solved, not stepped
    "segmentation": {**_TRANSFORMER, "batch_size": 16},
    "relational": _TRANSFORMER,
    "video-classification": _TRANSFORMER,
    "video-regression": _TRANSFORMER,
    "zero-shot": {},
    "pair-scoring": {},
}
_FORMS = {"multi-label": "labels", "segmentation": "map", "video-regression": "value"}


def own_benchmark(path: Path) -> Benchmark:
    """The record of a benchmark's file.

    Args:
        path: of the TOML file.

    Returns:
        A benchmark whose one source, ``"file"``, reads what the file names.

    Raises:
        DataError: the file is wrong; the message names its line.
    """
    own = read_benchmark(path)
    about = own.benchmark
    training: dict[str, Any] = {**_RECIPES.get(about.task, _RECIPE), **own.training}
    if about.task == "zero-shot":
        training["templates"] = own.classes.templates
    return Benchmark(
        id=about.id,
        title=about.title or about.id,
        task=about.task,
        metrics=about.metrics or _METRICS[about.task],
        sources={"file": str(path.absolute())},
        training=training,
        licence=about.licence,
        citation=about.citation,
    )


def originals_of(path: Path) -> Originals[Path]:
    """How a benchmark's file is read: found, checked and loaded like a data set's original files.

    Args:
        path: of the TOML file.

    Returns:
        The originals; their root is the file's folder.

    Raises:
        DataError: as `own_benchmark`.
    """
    from gate_runner.benchmarks.original_files import from_lists
    from gate_runner.own_data.lists import parts_of
    from gate_runner.readers import ClassMap

    own = read_benchmark(path)
    task = own.benchmark.task
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
        fit="whole" if own.data.kind == "coco" else "crop",
        trained=task not in ("zero-shot", "pair-scoring"),
        maps=maps,
    )
