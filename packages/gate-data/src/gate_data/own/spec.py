"""What a benchmark of one's own says of itself: the fields of a TOML file, their types and their meaning.

This is the one place where they stand: the reader, the JSON schema for editors and the page in the documentation are
made from it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

Kind = Literal["folders", "table", "coco", "voc", "yolo", "maps", "datasets"]
Task = Literal[
    "image-classification",
    "zero-shot",
    "knn",
    "image-retrieval",
    "clustering",
    "multi-label",
    "regression",
    "segmentation",
    "relational",
    "video-classification",
    "video-regression",
    "pair-scoring",
    "image-text",
    "detection",
]


@dataclass(frozen=True)
class Guess:
    """What a folder was taken for: the tables and fields of the file, and what was found, a sentence each.

    Example:
        >>> Guess({"data": {"kind": "folders"}}, ("3 folders of classes",)).values["data"]["kind"]
        'folders'
    """

    values: dict[str, dict[str, Any]]
    remarks: tuple[str, ...]

    @classmethod
    def of(
        cls,
        about: Mapping[str, Any],
        task: str,
        data: Mapping[str, Any],
        splits: Mapping[str, str],
        remarks: Sequence[str],
        classes: Mapping[str, Any] | None = None,
    ) -> Guess:
        """From the tables' fields; tables without any are left out."""
        tables = {"benchmark": {**about, "task": task}, "data": data, "splits": splits, "classes": classes or {}}
        return cls({name: dict(fields) for name, fields in tables.items() if fields}, tuple(remarks))


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class About(_Part):
    """The table ``[benchmark]``: what it is called and what is asked."""

    id: Annotated[
        str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", description="Name in results: a-z, 0-9, '.', '_', '-'.")
    ]
    title: Annotated[str, Field(description="What a reader should see.")] = ""
    samples: Annotated[Task | None, Field(description="Of a plug-in's task type: the task whose samples it takes.")] = (
        None
    )
    task: Annotated[str, Field(description="Task type, see 'gate-runner ls tasks'.", examples=list(get_args(Task)))] = (
        "image-classification"
    )
    metrics: Annotated[
        tuple[str, ...], Field(strict=False, description="Metrics; the first selects. The task's own by default.")
    ] = ()
    licence: Annotated[str, Field(description="Of the data, e.g. 'CC BY 4.0'.")] = "not stated"
    citation: Annotated[str, Field(description="Whom to cite.")] = ""

    @field_validator("task")
    @classmethod
    def _has_samples(cls, task: str, info: ValidationInfo) -> str:
        tasks = get_args(Task)
        if task not in tasks and not info.data.get("samples"):
            near = difflib.get_close_matches(task, tasks, n=1, cutoff=0.5)
            hint = f"nearest: {near[0]}" if near else f"there are: {', '.join(tasks)}"
            message = "no such task; {hint}; where it is a plug-in's, 'samples' names the task whose samples it takes"
            raise PydanticCustomError("unknown_task", message, {"hint": hint})
        return task


class Files(_Part):
    """The table ``[data]``: where the samples are."""

    kind: Annotated[
        Kind,
        Field(
            description="folders: a folder per class; table: a row per sample (CSV, TSV, JSONL, Parquet); "
            "coco: COCO's JSON, whose boxes are found (detection), or cut out and classified, or whose captions are "
            "matched (image-text); voc, yolo: boxes in a file for each picture, likewise; maps: a class map for each "
            "picture (segmentation); datasets: what Hugging Face's save_to_disk wrote (extra hub)."
        ),
    ]
    root: Annotated[str, Field(description="Folder of pictures or clips, from this file's folder.")] = "."
    table: Annotated[
        str, Field(description="The table or JSON file of all samples, from this file's folder; or give one per split.")
    ] = ""
    roots: Annotated[
        dict[str, str],
        Field(description="Folder of a split's pictures, where each has its own, e.g. {train = 'train2017'}."),
    ] = {}
    annotations: Annotated[
        str,
        Field(
            description="The annotation of a picture (voc, maps): '*' stands for the picture's name without its "
            "ending, '{}' for its split's subfolder, e.g. 'masks/{}/*.png'. YOLO's is found by YOLO's own rule: "
            "'labels' for the last 'images' in its path, or beside it."
        ),
    ] = ""
    image: Annotated[str, Field(description="Column of the picture's path (of pair-scoring: the first).")] = "image"
    image2: Annotated[
        str,
        Field(
            description="Column of a pair's second picture (of image-retrieval: the picture to be found; without such "
            "a column, 'target' says which pictures belong together)."
        ),
    ] = "image2"
    labels: Annotated[
        tuple[str, ...],
        Field(strict=False, description="Of multi-label: columns of 0 and 1, one for each label, instead of 'target'."),
    ] = ()
    target: Annotated[
        str, Field(description="Column of the class, the answer, the value, or the class map's path.")
    ] = "label"
    separator: Annotated[str, Field(description="Between the labels of one field, where a sample has several.")] = "|"
    text: Annotated[
        str,
        Field(
            description="Column of the question or caption (of pair-scoring: the first; of image-text: "
            "a row per caption, and a picture may have several)."
        ),
    ] = "text"
    text2: Annotated[str, Field(description="Column of a pair's second caption.")] = "text2"
    ignored: Annotated[tuple[int, ...], Field(strict=False, description="Values of class maps that count nowhere.")] = (
        255,
    )
    frames: Annotated[int, Field(ge=1, le=256, description="Frames read of a clip, at the middles of equal parts.")] = 8


class Splits(_Part):
    """The table ``[splits]``: what is trained on, what chooses, what is scored. Given, or drawn."""

    train: Annotated[
        str, Field(description="Subfolder, table, list of pictures (.txt), or value of the column 'column'.")
    ] = ""
    validation: Annotated[str, Field(description="Likewise; drawn from the training samples by default.")] = ""
    test: Annotated[str, Field(description="Likewise.")] = ""
    column: Annotated[str, Field(description="Column that says each row's split.")] = ""
    group: Annotated[str, Field(description="Column of what must not be torn apart: a patient, a place, a film.")] = ""
    validation_share: Annotated[float, Field(gt=0, lt=1, description="Drawn from training where none is given.")] = 0.1
    test_share: Annotated[float, Field(gt=0, lt=1, description="Drawn where no test split is given.")] = 0.2
    seed: Annotated[int, Field(ge=0, description="Of what is drawn.")] = 0

    @property
    def named(self) -> dict[str, str]:
        """What each split is called in the data, of those that the file names."""
        values = {"train": self.train, "validation": self.validation, "test": self.test}
        return {split: value for split, value in values.items() if value}


class Classes(_Part):
    """The table ``[classes]``: names in the order of their indices."""

    names: Annotated[
        tuple[str, ...], Field(strict=False, description="In order; sorted from the data by default.")
    ] = ()
    file: Annotated[str, Field(description="A text file with a name per line instead.")] = ""
    values: Annotated[
        tuple[int, ...], Field(strict=False, description="Of class maps: the value of each name; 0, 1, … by default.")
    ] = ()
    colours: Annotated[
        tuple[Annotated[tuple[int, int, int], Field(strict=False)], ...],
        Field(strict=False, description="Of coloured class maps: red, green and blue of each name."),
    ] = ()
    words: Annotated[
        str,
        Field(
            description="A file of words for the names: .json, lines of a name and its words (as ImageNet's "
            "LOC_synset_mapping.txt), or a line per class in order."
        ),
    ] = ""
    shown: Annotated[
        dict[str, str], Field(description="Name in the data to the words for it, e.g. n01440764 = 'tench'.")
    ] = {}
    templates: Annotated[
        tuple[str, ...],
        Field(
            strict=False,
            description="Prompts for zero-shot, with {} for the class; by default those of 'prompts', "
            "or 'a photo of a {}.'.",
        ),
    ] = ()
    prompts: Annotated[
        str,
        Field(description="For zero-shot, a set of knowledge-prompts (imagenet, …), or a .json or .txt of one's own."),
    ] = ""
    knowledge: Annotated[
        tuple[str, ...],
        Field(
            strict=False, description="For zero-shot: wordnet, Wiktextract's dump, a .json of descriptors, NAME=PATH."
        ),
    ] = ()


class OwnBenchmark(_Part):
    """The whole file.

    Example:
        >>> OwnBenchmark.model_validate({"benchmark": {"id": "birds"}, "data": {"kind": "folders"}}).splits.test_share
        0.2
    """

    benchmark: About
    data: Files
    splits: Splits = Splits()
    classes: Classes = Classes()
    training: Annotated[
        dict[str, float | int | str],
        Field(
            description="Fields of the head's recipe: lr, steps, batch_size, validate_every, weight_decay, schedule. A "
            "frozen encoder's classes are told apart by a head that is solved, unless steps are named."
        ),
    ] = {}

    @property
    def samples(self) -> str:
        """The task whose samples these are: the benchmark's own, or the one that a plug-in's takes them from."""
        return self.benchmark.samples or self.benchmark.task
