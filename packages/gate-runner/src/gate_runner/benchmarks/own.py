"""From a benchmark's file to a record that runs like any other."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from gate_data.own.annotated import root_of
from gate_data.own.reading import line_of, read_benchmark
from gate_data.own.spec import OwnBenchmark
from gate_data.readers.folders import may_be_class
from gate_runner.benchmark import Benchmark
from gate_runner.benchmarks.registry import is_taken
from gate_runner.errors import DataError, UsageError, unknown
from gate_runner.tasks.registry import find_task_type
from knowledge_prompts.class_words import built_in_knowledge
from wary_files.class_names import file_and_list

if TYPE_CHECKING:
    from gate_data.own.columns import Guess

TEXT_TASKS = ("zero-shot", "zero-shot-segmentation", "image-text", "zero-shot-retrieval", "pair-scoring")
"""Tasks of people's own data that compare images with texts."""


def own_benchmark(path: Path) -> Benchmark:
    """The record of a benchmark's file."""
    own = read_benchmark(path)
    if is_taken(own.benchmark.id):
        taken = f"field 'benchmark.id' is {own.benchmark.id!r}, the name of a known data set or pack"
        raise DataError(_at(path, ["benchmark", "id"], f"{taken}: choose another, e.g. {'my-' + own.benchmark.id!r}"))
    about = own.benchmark
    try:
        task = find_task_type(about.task)
    except UsageError as error:
        raise DataError(_at(path, ["benchmark", "task"], str(error))) from error
    for metric in about.metrics:
        if metric not in metrics_of(about.task):
            raise DataError(_at(path, ["benchmark", "metrics"], str(unknown_metric(about.task, metric))))
    if own.training:
        from gate_runner.tasks.recipes import checked_own

        try:
            checked_own(about.task, own.training)
        except UsageError as error:
            raise DataError(_at(path, ["training"], str(error))) from error
    training: dict[str, Any] = {**task.own_training, **own.training}
    if task.class_prompts:
        where, named = path.absolute().parent, own.classes.prompts
        own_set = bool(named) and (where / named).is_file()
        words = {
            "templates": tuple(_templates_from_here(where, text) for text in own.classes.templates),
            "prompts": str(where / named) if own_set else named,
            "knowledge": tuple(_from_here(where, source) for source in built_in_knowledge(own.classes.knowledge, path)),
        }
        training |= {name: value for name, value in words.items() if value}
    if own.classes.synonyms:
        training["synonyms"] = {name: list(words) for name, words in own.classes.synonyms.items()}
    if own.classes.background is not None:
        training["background"] = own.classes.background
    return Benchmark(
        id=about.id,
        title=about.title or about.id,
        task=about.task,
        metrics=about.metrics or tuple(task.own_metrics),
        sources={"file": str(path.absolute())},
        training=training,
        licence=about.licence,
        citation=about.citation,
    )


def metrics_of(task: str) -> tuple[str, ...]:
    """Metrics that a user may ask for of a task."""
    record = find_task_type(task)
    return tuple(dict.fromkeys((*record.own_metrics, *record.further_metrics)))


def unknown_metric(task: str, metric: str) -> UsageError:
    """The error for a metric that a task does not have, with the nearest."""
    return unknown(f"metric of {task}", metric, metrics_of(task))


def refuse_among_classes(file: Path, *outputs: Path | None, own: OwnBenchmark | None = None) -> None:
    """Refuse to write among folders of classes, where the next look would take what is written for a class.

    The folder ``runs`` and hidden ones are never taken for one.

    Args:
        file: the benchmark's, of whose folder its paths are relative.
        outputs: folders that are to be written.
        own: what the file says, where it is not written yet.

    Raises:
        UsageError: shows the output, and the folder that it is in.
    """
    own = own or read_benchmark(file)
    if own.data.kind != "folders":
        return
    inside = own.splits.named or {"": ""}
    for pictures in (root_of(own, file.parent, split) / name for split, name in inside.items()):
        for output in outputs:
            if output is None or not output.resolve().is_relative_to(pictures.resolve()):
                continue
            first = output.resolve().relative_to(pictures.resolve()).parts[:1]
            if not first or (may_be_class(first[0]) and first != ("runs",)):
                raise UsageError(
                    f"output {output} is among the class folders of {pictures}, where it would be taken for a class; "
                    f"expected a folder outside of it, or in {pictures / 'runs'}"
                )


def _at(path: Path, keys: list[str], message: str) -> str:
    return f"{path}, line {line_of(path.read_text(encoding='utf-8'), keys)}: {message}"


def _from_here(where: Path, source: str) -> str:
    """A source of knowledge whose path is relative to the benchmark's file."""
    name, sign, path = source.rpartition("=")
    return f"{name}{sign}{where / path}" if (where / path).exists() else source


def _templates_from_here(where: Path, text: str) -> str:
    """A template, or the file of several, whose path is relative to the benchmark's file."""
    file, chosen = file_and_list(text)
    if file.suffix != ".json" or not os.path.isfile(where / file):  # noqa: PTH113 - no text is too long
        return text
    return f"{where / file}#{chosen}" if chosen else str(where / file)


def looked_at(
    folder: Path, path: Path, table: Path | None = None, target: str = "", task: str = ""
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """What a folder was taken for, checked, with its counts; nothing is written."""
    from pydantic import ValidationError

    from gate_data.own import OwnBenchmark, guess, summary, values_at

    if path.exists():
        raise DataError(f"{path} exists; it was not changed: remove it, or give another name with --output")
    if not path.parent.is_dir():
        raise DataError(f"{path.parent} is no folder, in which {path.name} could be written")
    guessed = guess(folder, is_taken, table, target)
    if task:
        guessed = _for_task(guessed, task)
    elif guessed.values["benchmark"]["task"] == "image-text":
        how = "image-text trains two projections; --task zero-shot-retrieval scores an encoder as it is"
        guessed = replace(guessed, remarks=(*guessed.remarks, how))
    values = values_at(guessed.values, folder, path.parent)
    try:
        own = OwnBenchmark.model_validate(values)
    except ValidationError as error:
        raise DataError(f"{folder}: {error.errors(include_url=False)[0]['msg']}; write the file by hand") from error
    try:
        counts = summary(own, path.parent)
    except DataError as error:
        raise DataError(f"{folder} was taken for this: {'; '.join(guessed.remarks)}. But {error}") from error
    return values, [*guessed.remarks, *counts]


def _for_task(guessed: Guess, task: str) -> Guess:
    """What a folder was taken for, with another task; without what is said of splits that it does not draw."""
    from gate_data.own.originals import UNFITTED
    from gate_data.own.spec import Task

    if task not in get_args(Task):
        raise unknown("task", task, get_args(Task))
    about = {**guessed.values["benchmark"], "task": task}
    drawn = tuple(f"{split} is drawn from train" for split in ("validation", "test"))
    remarks = tuple(
        line
        for line in guessed.remarks
        if not line.startswith("taken for ") and (line not in drawn or task not in UNFITTED)
    )
    return replace(guessed, values={**guessed.values, "benchmark": about}, remarks=(*remarks, f"taken for {task}"))


def write_own(values: dict[str, dict[str, Any]], path: Path) -> None:
    """Write a benchmark's file, in the last step."""
    from gate_data.own import write_benchmark

    try:
        write_benchmark(values, path)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from error


def schema() -> dict[str, Any]:
    """The JSON schema of a benchmark's file, for editors."""
    from gate_data.own.spec import OwnBenchmark

    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **OwnBenchmark.model_json_schema()}
