"""What a folder seems to hold, as a benchmark's file that a person reads before it is run."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gate_runner.errors import DataError
from gate_runner.readers import files_of_classes, table
from gate_runner.readers.folders import PICTURES, classes_in

_SPLITS = {
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing", "eval"),
}
_TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
_COLUMNS = {
    "image": ("image", "file", "filename", "file_name", "path", "filepath", "image_path", "img"),
    "target": ("label", "class", "target", "category", "answer", "labels", "tags"),
    "text": ("question", "caption", "text", "sentence"),
    "split": ("split", "subset", "partition"),
    "group": ("group", "patient", "patient_id", "subject", "scene", "location"),
}


@dataclass(frozen=True)
class Guess:
    """What a folder was taken for.

    Args:
        values: the tables and fields of the file.
        said: what was found, a sentence each.
    """

    values: dict[str, dict[str, Any]]
    said: tuple[str, ...]


def guess(folder: Path) -> Guess:
    """Look at a folder and say what benchmark it could be.

    Recognised are folders of classes, with or without folders of splits around them (ImageNet's own layout); one table
    with a column of paths; a COCO file.

    Args:
        folder: to be looked at.

    Returns:
        The file's content, and what was found.

    Raises:
        DataError: nothing is recognised, or what looks like splits is not whole; the message says what was there.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"):
        ...     (folder / name).parent.mkdir(exist_ok=True)
        ...     Image.new("RGB", (32, 32)).save(folder / name)
        >>> "image-classification" in str(guess(folder))
        True
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder")
    about = {"id": _identifier(folder), "title": folder.name, "task": "image-classification"}
    tables = sorted(path for path in folder.iterdir() if path.suffix.lower() in _TABLES)
    if len(tables) == 1:
        return _of_table(folder, tables[0], about)
    boxes = [path for path in sorted(folder.glob("*.json")) if _is_coco(path)]
    if len(boxes) == 1:
        values = {"benchmark": about, "data": {"kind": "coco", "table": boxes[0].name}}
        return Guess(values, (f"{boxes[0].name}: COCO boxes, each cut out and classified",))
    return _of_folders(folder, about)


def write_benchmark(values: dict[str, dict[str, Any]], path: Path) -> None:
    """Write a benchmark's file; one that is there already stays.

    Args:
        values: tables and fields, as in `Guess`.
        path: of the file.

    Raises:
        DataError: the file exists.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "mine.toml"
        >>> write_benchmark({"benchmark": {"id": "birds"}, "data": {"kind": "folders"}}, path)
        >>> print(path.read_text())
        [benchmark]
        id = "birds"
        <BLANKLINE>
        [data]
        kind = "folders"
        <BLANKLINE>
    """
    text = "\n".join(
        f"[{table}]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in fields.items())
        for table, fields in values.items()
    )
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise DataError(f"{path} exists; it was not changed") from error


def _of_folders(folder: Path, about: dict[str, Any]) -> Guess:
    names = classes_in(folder)
    splits = {split: name for split, words in _SPLITS.items() for name in names if name.casefold() in words}
    data = {"kind": "folders"}
    if not splits:
        found = files_of_classes(folder)
        count = sum(map(len, found.values()))
        drawn = "test and validation are drawn, by class"
        return Guess({"benchmark": about, "data": data}, (f"{len(found)} folders of classes, {count} pictures", drawn))
    if "train" not in splits:
        raise DataError(f"{folder} has {', '.join(splits.values())} but no train folder: are these splits or classes?")
    others = [name for name in names if name not in splits.values()]
    if others:
        raise DataError(
            f"{folder} holds {', '.join(splits.values())}, which look like splits, beside {', '.join(others[:5])}: "
            f"move one or the other away, or write the file by hand"
        )
    each = {split: files_of_classes(folder / name) for split, name in splits.items()}
    said = [
        f"{name}/: {len(found)} classes, {sum(map(len, found.values()))} pictures"
        for name, found in zip(splits.values(), each.values(), strict=True)
    ]
    said += [f"{split} is drawn from train, by class" for split in ("validation", "test") if split not in splits]
    return Guess({"benchmark": about, "data": data, "splits": dict(splits)}, tuple(said))


def _of_table(folder: Path, path: Path, about: dict[str, Any]) -> Guess:
    rows = list(itertools.islice(table(path, ()), 200))
    columns = [str(name) for name in rows[0].values]
    by_case = {name.casefold(): name for name in columns}
    known = {part: next((by_case[word] for word in words if word in by_case), "") for part, words in _COLUMNS.items()}
    if not known["image"]:
        raise DataError(f"{path} has no column of paths among {', '.join(columns)}; expected e.g. 'image'")
    if not known["target"]:
        raise DataError(f"{path} has no column of labels among {', '.join(columns)}; expected e.g. 'label'")
    data: dict[str, Any] = {"kind": "table", "table": path.name, "image": known["image"]}
    said = [f"{path.name}: a row per sample, pictures in column {known['image']!r}"]
    data["target"] = known["target"]
    values = [str(row.values.get(known["target"]) or "") for row in rows]
    if known["text"]:
        about = {**about, "task": "relational"}
        data["text"] = known["text"]
    elif any("|" in value for value in values):
        about = {**about, "task": "multi-label"}
    elif all(value.lower().endswith(PICTURES) for value in values):
        about = {**about, "task": "segmentation"}
        said.append("class maps need names: fill in [classes] names")
    root = next(
        (
            root
            for root in (".", "images", "img", "data")
            if (folder / root / str(rows[0].values[known["image"]])).exists()
        ),
        ".",
    )
    data["root"] = root
    splits = {key: known[part] for key, part in (("column", "split"), ("group", "group")) if known[part]}
    if "column" in splits:
        there = {str(row.values.get(splits["column"])) for row in table(path, ())}
        for split, words in _SPLITS.items():
            name = next((one for one in sorted(there) if one.casefold() in words), None)
            if name is not None:
                splits[split] = name
    said.append(f"taken for {about['task']}")
    parts = {"benchmark": about, "data": data, **({"splits": splits} if splits else {})}
    return Guess(parts, tuple(said))


def _is_coco(path: Path) -> bool:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {"images", "annotations", "categories"} <= set(found)


def _identifier(folder: Path) -> str:
    name = re.sub(r"[^a-z0-9._-]+", "-", folder.resolve().name.casefold()).strip("-._")
    return name or "mine"


def _toml(value: Any) -> str:
    """A value as TOML: its strings and lists are JSON's."""
    return json.dumps(value, ensure_ascii=False)
