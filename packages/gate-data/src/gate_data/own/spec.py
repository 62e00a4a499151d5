"""What a benchmark of one's own says of itself: the fields of a TOML file, their types and their meaning.

This is the one place where they stand: the reader, the JSON schema for editors and the page in the documentation are
made from it.
"""

from __future__ import annotations

import difflib
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

Kind = Literal["folders", "table", "coco", "voc", "yolo", "maps", "datasets", "webdataset"]
Task = Literal[
    "image-classification",
    "zero-shot",
    "knn",
    "image-retrieval",
    "clustering",
    "multi-label",
    "regression",
    "segmentation",
    "zero-shot-segmentation",
    "relational",
    "video-classification",
    "video-regression",
    "pair-scoring",
    "image-text",
    "zero-shot-retrieval",
    "detection",
]
Texts = Annotated[tuple[str, ...], Field(strict=False)]
Numbers = Annotated[tuple[int, ...], Field(strict=False)]
Colour = Annotated[tuple[int, int, int], Field(strict=False)]
CAPTIONED = ("image-text", "zero-shot-retrieval")
"""Tasks whose samples are images with captions."""
Share = Annotated[float, Field(gt=0, lt=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class About(_Part):
    """The table ``[benchmark]``: what it is called and what is asked."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    """Name in results: a-z, 0-9, '.', '_', '-'."""
    title: str = ""
    """What a reader should see."""
    samples: Task | None = None
    """Of a plug-in's task type: the task whose samples it takes."""
    task: Annotated[str, Field(examples=list(get_args(Task)))] = "image-classification"
    """Task type, see 'gate-runner ls tasks'."""
    metrics: Texts = ()
    """Metrics; the first selects. The task's own by default."""
    licence: str = "not stated"
    """Of the data, e.g. 'CC BY 4.0'."""
    citation: str = ""
    """Whom to cite."""

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

    kind: Kind
    """A folder per class (folders). A row per sample, as CSV, TSV, JSONL or Parquet (table). COCO's JSON (coco), whose
    boxes are found (detection), or cut out and classified, or whose captions are matched (image-text,
    zero-shot-retrieval). Boxes in a file for each image (voc, yolo), likewise. A class map for each image (maps,
    segmentation). What Hugging Face's save_to_disk wrote (datasets, extra hub). Tar shards of images with class numbers
    or captions, as CLIP_benchmark has them (webdataset)."""
    root: str = "."
    """Folder of images or clips, from this file's folder."""
    table: str = ""
    """The table or JSON file of all samples, from this file's folder; or give one per split."""
    roots: dict[str, str] = {}
    """Folder of a split's images, where each has its own, e.g. {train = 'train2017'}."""
    annotations: str = ""
    """The annotation of an image (voc, maps): '*' stands for the image's name without its ending, '{}' for its
    split's subfolder, e.g. 'masks/{}/*.png'. YOLO's is found by YOLO's own rule: 'labels' for the last 'images' in its
    path, or next to it."""
    image: str = "image"
    """Column of the image's path (of pair-scoring: the first)."""
    image2: str = "image2"
    """Column of a pair's second image (of image-retrieval: the image to be found; without such a column, 'target'
    says which images belong together)."""
    labels: Texts = ()
    """Of multi-label: columns of 0 and 1, one for each label, instead of 'target'."""
    target: str = "label"
    """Column of the class, the answer, the value, or the class map's path."""
    separator: str = "|"
    """Between the labels of one field, where a sample has several."""
    text: str = "text"
    """Column of the question or caption (of pair-scoring: the first; of image-text and zero-shot-retrieval: a row per
    caption, or a list of captions in JSONL, and an image may have several)."""
    text2: str = "text2"
    """Column of a pair's second caption."""
    ignored: Numbers = (255,)
    """Values of class maps that count nowhere."""
    corrections: str = ""
    """A table of corrected labels with the columns file, label and correction, as 'gate-runner audit apply' writes it.
    An image without a correction is left out."""
    frames: Annotated[int, Field(ge=1, le=256)] = 8
    """Frames read of a clip, at the middles of equal parts."""


class Splits(_Part):
    """The table ``[splits]``: what is trained on, what chooses, what is scored. Given, or drawn."""

    train: str = ""
    """Subfolder, table, list of images (.txt), or value of the column 'column'."""
    validation: str = ""
    """Likewise; drawn from the training samples by default."""
    test: str = ""
    """Likewise."""
    column: str = ""
    """Column that says each row's split."""
    group: str = ""
    """Column of what must not be torn apart: a patient, a place, a film."""
    validation_share: Share = 0.1
    """Drawn from training where none is given."""
    test_share: Share = 0.2
    """Drawn where no test split is given."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Of what is drawn."""

    @property
    def named(self) -> dict[str, str]:
        """What each split is called in the data, of those that the file names."""
        values = {"train": self.train, "validation": self.validation, "test": self.test}
        return {split: value for split, value in values.items() if value}


class Slicing(_Part):
    """The table ``[slices]``: parts of the test samples that are scored each, and tested against the others."""

    columns: Texts = ()
    """Columns of the table, e.g. ['camera', 'site']."""
    folders: Numbers = ()
    """Levels of folders below 'root': 1 is the first, e.g. the split's or the class's."""
    exif: Texts = ()
    """EXIF fields of the image files, e.g. ['Model']."""

    @property
    def names(self) -> tuple[str, ...]:
        """What each is called in results."""
        levels = (f"folder {level}" for level in self.folders)
        return (*self.columns, *levels, *(f"EXIF {name}" for name in self.exif))


class Classes(_Part):
    """The table ``[classes]``: names in the order of their indices."""

    names: Texts = ()
    """In order; sorted from the data by default."""
    file: str = ""
    """A text file with a name per line instead."""
    values: Numbers = ()
    """Of class maps: the value of each name; 0, 1, … by default."""
    colours: Annotated[tuple[Colour, ...], Field(strict=False)] = ()
    """Of coloured class maps: red, green and blue of each name."""
    words: str = ""
    """A file of words for the names: .json, lines of a name and its words (as ImageNet's LOC_synset_mapping.txt), or a
    line per class in order, by number where the names are numbers."""
    shown: dict[str, str] = {}
    """Name in the data to the words for it, e.g. n01440764 = 'tench'."""
    templates: Texts = ()
    """Prompts for zero-shot, with {} for the class; by default those of 'prompts', or 'a photo of a {}.'."""
    prompts: str = ""
    """For zero-shot, a set of knowledge-prompts (imagenet, …), or a .json or .txt of one's own."""
    knowledge: Texts = ()
    """For zero-shot: wordnet, Wiktextract's dump, a .json of descriptors, NAME=PATH."""
    synonyms: dict[str, Texts] = {}
    """For zero-shot-segmentation: more words for a name, e.g. {person = ['man', 'woman']}."""
    background: str | None = None
    """For zero-shot-segmentation: the name that is background, '' for none; by default the name 'background'."""


class OwnBenchmark(_Part):
    """The whole file.

    Example:
        >>> OwnBenchmark.model_validate({"benchmark": {"id": "birds"}, "data": {"kind": "folders"}}).splits.test_share
        0.2
    """

    benchmark: About
    data: Files
    splits: Splits = Splits()
    slices: Slicing = Slicing()
    classes: Classes = Classes()
    training: dict[str, float | int | str] = {}
    """Fields of the head's recipe: lr, steps, batch_size, validate_every, weight_decay, schedule. A frozen encoder's
    classes are distinguished by a head that is solved, unless steps are named. Class maps have a transformer, or with
    head = 'ridge' a ridge regression on windows of patch features, which is solved."""

    @property
    def samples(self) -> str:
        """The task whose samples these are: the benchmark's own, or the one that a plug-in's takes them from."""
        task = "segmentation" if self.benchmark.task == "zero-shot-segmentation" else self.benchmark.task
        return self.benchmark.samples or task
