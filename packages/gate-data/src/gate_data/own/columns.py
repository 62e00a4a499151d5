"""What a table of files could be: its columns by their names, and the task that they are for."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gate_data.errors import DataError
from gate_data.readers import table
from gate_data.readers.clips import VIDEOS
from gate_data.readers.folders import PICTURES, SPLIT_WORDS
from gate_data.readers.tables import Row
from wary_files.text import comma_hint

TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
_COLUMNS = {
    "image": ("image", "file", "filename", "file_name", "path", "filepath", "image_path", "img", "video", "clip"),
    "image2": ("image2", "image_2", "image1", "image_1", "second_image", "path2", "file2"),
    "target": ("label", "class", "target", "category", "answer", "labels", "tags", "value"),
    "text": ("question", "text"),
    "caption": ("caption", "captions", "sentence", "description", "text", "caption_0", "caption0"),
    "caption2": ("caption2", "caption_2", "caption1", "caption_1", "text2", "text_1"),
    "split": ("split", "subset", "partition"),
    "group": ("group", "patient", "patient_id", "subject", "scene", "location"),
}
_FIRST = ("image0", "image_0", "image1", "image_1")
"""What the first image of a pair may be called, besides the names of single ones."""
_OF_CLASSES = ("label", "labels", "class", "target", "category")
"""Columns whose whole numbers are names of classes, however many there are."""
_LOOKED_AT = 200
"""Rows by which a column is judged."""
_FEW = 10
"""Different numbers up to which they are taken for names of classes."""


def naming(folder: Path, table: str) -> str:
    """How one of several tables is chosen, in the words of an error."""
    return (
        f"name one with 'table' under [data] in a benchmark.toml, as gate-runner new {folder} --table {table} writes it"
    )


def tables_in(folder: Path) -> list[Path]:
    """Tables in a folder: by their endings, and Flickr8k's ``captions.txt``."""
    return sorted(
        path for path in folder.iterdir() if path.suffix.lower() in TABLES or path.name.lower() == "captions.txt"
    )


def splits_in(names: Iterable[str], *, exact: bool = False) -> dict[str, str]:
    """Split to the name that means it, the first of several; as a whole (a class may be a test tube), or by a word."""
    splits: dict[str, str] = {}
    for name in names:
        for word in [name.casefold()] if exact else re.split(r"[^a-z]+", name.casefold()):
            if split := SPLIT_WORDS.get(word):
                splits.setdefault(split, name)
    return {split: splits[split] for split in ("train", "validation", "test") if split in splits}


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
        task: str,
        data: dict[str, Any],
        splits: Mapping[str, str] | None,
        remarks: Sequence[str],
        classes: Mapping[str, Any] | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> Guess:
        """From the tables' fields, those without any left out.

        Splits are what the data call each. Where nobody made a test split, that for validation is scored; ``roots`` of
        the data follow. None says nothing of splits, ``columns`` are further fields of their table.
        """
        chosen, drawn = dict(splits or {}), []
        if "train" in chosen and "validation" in chosen and "test" not in chosen:
            name = chosen["test"] = chosen.pop("validation")
            drawn = [f"{name} is scored, for there is no test split; validation is drawn from train"]
            if roots := data.get("roots"):
                data = {**data, "roots": {"train": roots["train"], "test": roots["validation"]}}
        elif splits is not None:
            drawn = [f"{split} is drawn from train" for split in ("validation", "test") if split not in chosen]
        fields = {**(columns or {}), **chosen}
        tables = {"benchmark": {"task": task}, "data": data, "splits": fields, "classes": classes or {}}
        return cls({name: dict(table) for name, table in tables.items() if table}, (*remarks, *drawn))


def of_tables(folder: Path, paths: Sequence[Path], target: str = "") -> Guess:
    """One table, or one for each split; the target is the column of that name, else of one that is known."""
    splits = splits_in(str(path.relative_to(folder)) for path in paths) if len(paths) > 1 else {}
    if len(paths) > 1 and (len(splits) != len(paths) or "train" not in splits):
        listed = ", ".join(str(path.relative_to(folder)) for path in paths[:5])
        example = paths[0].relative_to(folder)
        refuse_images_inside(paths[0])  # one shard of several says nothing of the others
        raise DataError(f"there are {listed}: {naming(folder, str(example))}")
    path = folder / splits["train"] if splits else paths[0]
    rows = list(itertools.islice(table(path, ()), _LOOKED_AT))
    columns = [str(name) for name in rows[0].values]
    by_case = {name.casefold(): name for name in columns}
    roles = {part: next((by_case[word] for word in words if word in by_case), "") for part, words in _COLUMNS.items()}
    if not roles["image"]:
        roles["image"] = next((by_case[word] for word in _FIRST if word in by_case), "")
    if not roles["image"]:
        raise DataError(f"{path} has no column of paths among {', '.join(columns):.200}; expected e.g. 'image'")
    if target:
        if target not in columns:
            raise DataError(f"{path} has no column {target!r} among {', '.join(columns):.200}")
        roles = {part: "" if name == target else name for part, name in roles.items()} | {"target": target}
        if not roles["image"]:
            raise DataError(f"{path}: column {target!r} holds the images' paths; expected another as the target")
    first = _first_path(rows[0], roles["image"])
    task, fields, remarks = _task_of(path, columns, roles, [row.values for row in rows])
    data: dict[str, Any] = {"kind": "table", **({} if splits else {"table": str(path.relative_to(folder))})}
    data |= {"image": roles["image"], **fields}
    listed = ", ".join(str(table_path.relative_to(folder)) for table_path in paths)
    remarks = [f"{listed}: a row per sample, files in column {roles['image']!r}", *remarks, f"taken for {task}"]
    remarks += _passed_over(columns, {*roles.values(), *_texts_in(fields)}, divided=bool(splits or roles["split"]))
    if splits:
        firsts = {
            name: _first_path(next(iter(table(folder / file, ()))), roles["image"]) for name, file in splits.items()
        }
        data |= roots_of({name: _root(folder, folder / file, firsts[name]) for name, file in splits.items()})
        return Guess.of(task, data, splits, remarks)
    data["root"] = _root(folder, path, first)
    named = {key: roles[part] for key, part in (("column", "split"), ("group", "group")) if roles[part]}
    if "column" not in named:
        return Guess.of(task, data, None, remarks, columns=named)
    marks = sorted({str(row.values.get(named["column"])) for row in table(path, ())})
    return Guess.of(task, data, splits_in(marks, exact=True), remarks, columns=named)


_SPLIT_LIKE = re.compile(r"(is_?)?(train(ing)?|test(ing)?|val(id(ation)?)?)(_image|_set)?|fold|set|phase|usage")
_GROUP_LIKE = re.compile(r"(patient|subject|person|lesion|scene|site|session|video|user)(_?(id|no|number|name))?")


def _passed_over(columns: Sequence[str], used: Set[str], *, divided: bool) -> Iterator[str]:
    """Yield what to do about columns that are not used, and may say how the samples are divided."""
    for name in columns:
        if name in used:
            continue
        if _SPLIT_LIKE.fullmatch(name.casefold()) and not divided:
            yield (
                f"column {name!r} is not used: if it divides the samples, name one with train, validation and test as "
                "'column' under [splits]"
            )
        elif _GROUP_LIKE.fullmatch(name.casefold()):
            yield f"column {name!r} is not used: if its samples belong together, name it as 'group' under [splits]"


def _texts_in(fields: Mapping[str, Any]) -> Iterator[str]:
    for value in fields.values():
        yield from (value,) if isinstance(value, str) else value


def roots_of(roots: Mapping[str, str]) -> dict[str, Any]:
    """The field of the folders of splits: one, if it is the same for all."""
    return {"root": roots["train"]} if len(set(roots.values())) == 1 else {"roots": dict(roots)}


def _first_path(row: Row, column: str) -> str:
    """The path in a table's first row; the hub's Parquet files hold the images themselves."""
    path = row.values[column]
    if isinstance(path, bytes | dict):
        raise DataError(
            f"{row.file}: column {column!r} holds images themselves, expected paths of image files: load it with "
            "Hugging Face's datasets, its columns as Image and ClassLabel, and take the folder that save_to_disk writes"
        )
    return str(path)


def refuse_images_inside(path: Path) -> None:
    """Refuse a Parquet table whose first row holds an image itself, in any column."""
    if path.suffix != ".parquet":
        return
    row = next(iter(table(path, ())))
    for column, value in row.values.items():
        if isinstance(value, bytes) or (isinstance(value, dict) and {"bytes", "path"} <= set(value)):
            _first_path(row, column)


def _root(folder: Path, path: Path, first: str) -> str:
    """Where a table's images lie: beside it, or in a folder there."""
    inner = [
        name for name in ("images", "Images", "img", "data", "train", "pictures", "photos") if (folder / name).is_dir()
    ]
    further = sorted(inside.name for inside in folder.iterdir() if inside.is_dir() and inside.name not in inner)
    beside = str(path.parent.relative_to(folder))
    return next((root for root in (beside, ".", *inner, *further) if (folder / root / first).exists()), ".")


def _task_of(
    path: Path, columns: list[str], roles: dict[str, str], rows: Sequence[Any]
) -> tuple[str, dict[str, Any], list[str]]:
    """The task that a table's columns are for, the fields that name them, and what else a reader should hear."""
    second = roles["image2"] if roles["image2"] != roles["image"] else ""
    if second and roles["caption"] and roles["caption2"]:
        fields = {"image2": second, "text": roles["caption"], "text2": roles["caption2"]}
        return "pair-scoring", fields, ["two images and two captions in each row"]
    remarks: list[str] = []
    target = roles["target"]
    remaining = [name for name in columns if name not in {roles[part] for part in ("image", "split", "group")}]
    if not target and not roles["caption"] and remaining:
        marks = [name for name in remaining if all(_is_mark(row.get(name)) for row in rows)]
        if len(marks) > 1:
            remarks = [f"a label in each of {len(marks)} columns of 0 and 1: {', '.join(marks[:8])}"]
            return "multi-label", {"labels": marks}, remarks
        if len(remaining) == 1:
            (target,) = remaining
            remarks = [f"labels in column {target!r}, the only other one"]
    if not target:
        if roles["caption"]:
            return "image-text", {"text": roles["caption"]}, [f"captions in column {roles['caption']!r}"]
        raise DataError(
            f"{path}: none of the columns {', '.join(columns)} is known by its name; "
            "call the one that is to be predicted 'label', 'tags', 'value' (a number) or 'caption', "
            f"or name its column: gate-runner new {shlex.quote(str(path.parent))} "
            f"--target {shlex.quote(_likely_target(remaining, rows))}"
        )
    values = [str(row.get(target) if row.get(target) is not None else "") for row in rows]
    fields = {"target": target}
    numbers = all(_is_number(value) for value in values) and len(set(values)) > _FEW
    classes = (
        target.casefold() in _OF_CLASSES and all(float(value).is_integer() for value in values) if numbers else True
    )
    if str(rows[0][roles["image"]]).lower().endswith(VIDEOS):
        return ("video-regression" if numbers else "video-classification"), fields, remarks
    if roles["text"] and roles["text"] != target:
        return "relational", {**fields, "text": roles["text"]}, [*remarks, f"questions in column {roles['text']!r}"]
    if any("|" in value for value in values):
        return "multi-label", fields, remarks
    if all(value.lower().endswith(PICTURES) for value in values):
        return "segmentation", fields, [*remarks, "class maps need names: fill in [classes] names"]
    if not classes:
        return "regression", fields, [f"numbers in column {target!r}, to be predicted"]
    if all(_is_number(value) for value in values) and target.casefold() not in _OF_CLASSES:
        how = f'{len(set(values))} different numbers are taken for classes; task = "regression" predicts them'
        return "image-classification", fields, [*remarks, how]
    commas = [value for value in values if comma_hint(value)]
    if (
        commas
        and len(set(values)) > len(values) / 2
        and all(_is_number(value) or comma_hint(value) for value in values)
    ):
        how = f"values such as {commas[0]!r} are numbers with a comma: with points they can be predicted"
        remarks = [*remarks, how]
    return "image-classification", fields, remarks


def _likely_target(names: Sequence[str], rows: Sequence[Any]) -> str:
    """The column with the fewest different values, of those that have several; a word for it if none has."""
    counts = {name: len({str(row.get(name)) for row in rows}) for name in names}
    return min((name for name in names if counts[name] > 1), key=counts.__getitem__, default="COLUMN")


def _is_mark(value: object) -> bool:
    return str(value).strip() in ("0", "1", "0.0", "1.0", "True", "False")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
