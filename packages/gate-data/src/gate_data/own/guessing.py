"""What a folder seems to hold, as a benchmark's file that a person reads before it is run."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gate_data.cards import is_known
from gate_data.errors import DataError
from gate_data.readers import files_of_classes, table
from gate_data.readers.clips import VIDEOS
from gate_data.readers.folders import PICTURES, SPLIT_WORDS, classes_in

_TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
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
"""What the first picture of a pair may be called, besides the names of single ones."""


@dataclass(frozen=True)
class Guess:
    """What a folder was taken for.

    Args:
        values: the tables and fields of the file.
        said: what was found, a sentence each.

    Example:
        >>> Guess({"data": {"kind": "folders"}}, ("3 folders of classes",)).values["data"]["kind"]
        'folders'
    """

    values: dict[str, dict[str, Any]]
    said: tuple[str, ...]


def guess(folder: Path, taken: Callable[[str], bool] = is_known) -> Guess:
    """Look at a folder and say what benchmark it could be.

    Recognised are folders of classes, of pictures or clips, with or without folders of splits around them (ImageNet's
    own layout); one table with a column of paths, and labels, tags, values, questions, captions or a second picture
    with a caption of its own; COCO's JSON of boxes or captions, one or one for each split.

    Args:
        folder: to be looked at; or a table, whose paths start at its folder.
        taken: whether an id is that of a known data set, for which results on these data could pass.

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
    if not folder.exists():
        raise DataError(f"{folder} does not exist; expected a folder, or a table of files and labels")
    if folder.is_file() and folder.suffix.lower() not in _TABLES:
        raise DataError(f"{folder} is neither a folder nor a table ({', '.join(_TABLES)})")
    identifier = _identifier(folder if folder.is_dir() else folder.with_suffix(""))
    if taken(identifier):
        renamed = f"my-{identifier}"
        found = _looked_at(folder, renamed)
        said = (
            f"called {renamed}: {identifier} is the name of a known data set or pack, for which its results could pass"
        )
        return Guess(found.values, (*found.said, said))
    return _looked_at(folder, identifier)


def _looked_at(folder: Path, identifier: str) -> Guess:
    about = {"id": identifier, "title": folder.name, "task": "image-classification"}
    if folder.is_file():
        return _of_table(folder.parent, folder, {**about, "title": folder.stem})
    tables = sorted(path for path in folder.iterdir() if path.suffix.lower() in _TABLES)
    if len(tables) == 1:
        return _of_table(folder, tables[0], about)
    coco = {path: kind for path in sorted(folder.glob("*.json")) if (kind := _coco_kind(path))}
    return _of_coco(folder, coco, about) if coco else _of_folders(folder, about)


def values_at(values: dict[str, dict[str, Any]], folder: Path, place: Path) -> dict[str, dict[str, Any]]:
    """The same content for a file that lies elsewhere than in the folder that was looked at.

    Args:
        values: tables and fields, as in `Guess`, with paths from ``folder``.
        folder: that was looked at.
        place: in which the file is to lie.

    Example:
        >>> values_at({"data": {"kind": "folders"}}, Path("photographs"), Path())["data"]["root"]
        'photographs'
    """
    way = os.path.relpath(folder, place)
    if way == ".":
        return values
    data = dict(values["data"])
    data["root"] = os.path.normpath(os.path.join(way, str(data.get("root", "."))))  # noqa: PTH118 - text in the file
    if "table" in data:
        data["table"] = os.path.join(way, str(data["table"]))  # noqa: PTH118 - text in the file
    found = {**values, "data": data}
    if data["kind"] == "coco" and "splits" in values:
        found["splits"] = {name: os.path.join(way, str(file)) for name, file in values["splits"].items()}  # noqa: PTH118
    return found


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
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(benchmark_text(values))
    except FileExistsError as error:
        raise DataError(f"{path} exists; it was not changed") from error


def benchmark_text(values: dict[str, dict[str, Any]]) -> str:
    """A benchmark's file as text.

    Args:
        values: tables and fields, as in `Guess`.

    Returns:
        TOML.

    Example:
        >>> print(benchmark_text({"benchmark": {"id": "birds"}}))
        [benchmark]
        id = "birds"
        <BLANKLINE>
    """
    return "\n".join(
        f"[{table}]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in fields.items())
        for table, fields in values.items()
    )


def _of_folders(folder: Path, about: dict[str, Any]) -> Guess:
    names = classes_in(folder)
    splits = _splits_in(names)
    data = {"kind": "folders"}
    clips = _holds_clips(folder / names[0], "*/*" if splits else "*")
    if clips:
        about = {**about, "task": "video-classification"}
    what, endings = ("clips", VIDEOS) if clips else ("pictures", PICTURES)
    if not splits:
        found = files_of_classes(folder, endings)
        count = sum(map(len, found.values()))
        drawn = "test and validation are drawn, by class"
        return Guess({"benchmark": about, "data": data}, (f"{len(found)} folders of classes, {count} {what}", drawn))
    if "train" not in splits:
        raise DataError(f"{folder} has {', '.join(splits.values())} but no train folder: are these splits or classes?")
    others = [name for name in names if name not in splits.values()]
    if others:
        raise DataError(
            f"{folder} holds {', '.join(splits.values())}, which look like splits, beside {', '.join(others[:5])}: "
            f"move one or the other away, or write the file by hand"
        )
    each = {split: files_of_classes(folder / name, endings) for split, name in splits.items()}
    said = [
        f"{name}/: {len(found)} classes, {sum(map(len, found.values()))} {what}"
        for name, found in zip(splits.values(), each.values(), strict=True)
    ]
    said += [f"{split} is drawn from train, by class" for split in ("validation", "test") if split not in splits]
    return Guess({"benchmark": about, "data": data, "splits": dict(splits)}, tuple(said))


def _splits_in(names: Iterable[str]) -> dict[str, str]:
    """Split to the name that means it, the first of several."""
    found = {SPLIT_WORDS.get(name.casefold(), ""): name for name in reversed(list(names))}
    return {split: found[split] for split in ("train", "validation", "test") if split in found}


def _holds_clips(folder: Path, pattern: str) -> bool:
    return any(path.suffix.lower() in VIDEOS for path in folder.glob(pattern))


def _of_table(folder: Path, path: Path, about: dict[str, Any]) -> Guess:
    rows = list(itertools.islice(table(path, ()), 200))
    columns = [str(name) for name in rows[0].values]
    by_case = {name.casefold(): name for name in columns}
    known = {part: next((by_case[word] for word in words if word in by_case), "") for part, words in _COLUMNS.items()}
    if not known["image"]:
        known["image"] = next((by_case[word] for word in _FIRST if word in by_case), "")
    if not known["image"]:
        raise DataError(f"{path} has no column of paths among {', '.join(columns)}; expected e.g. 'image'")
    values = [str(row.values.get(known["target"]) or "") for row in rows] if known["target"] else []
    task, fields, said = _task_of(path, columns, known, values, str(rows[0].values[known["image"]]))
    about = {**about, "task": task}
    data: dict[str, Any] = {"kind": "table", "table": path.name, "image": known["image"], **fields}
    said = [f"{path.name}: a row per sample, files in column {known['image']!r}", *said]
    data["root"] = next(
        (
            root
            for root in (".", "images", "img", "data")
            if (folder / root / str(rows[0].values[known["image"]])).exists()
        ),
        ".",
    )
    splits = {key: known[part] for key, part in (("column", "split"), ("group", "group")) if known[part]}
    if "column" in splits:
        there = {str(row.values.get(splits["column"])) for row in table(path, ())}
        splits |= _splits_in(sorted(there))
    said.append(f"taken for {task}")
    parts = {"benchmark": about, "data": data, **({"splits": splits} if splits else {})}
    return Guess(parts, tuple(said))


def _task_of(
    path: Path, columns: list[str], known: dict[str, str], values: list[str], first: str
) -> tuple[str, dict[str, str], list[str]]:
    """The task that a table's columns are for, the fields that name them, and what else a reader should hear."""
    second = known["image2"] if known["image2"] != known["image"] else ""
    if second and known["caption"] and known["caption2"]:
        fields = {"image2": second, "text": known["caption"], "text2": known["caption2"]}
        return "pair-scoring", fields, ["two pictures and two captions in each row"]
    if not known["target"]:
        if known["caption"]:
            return "image-text", {"text": known["caption"]}, [f"captions in column {known['caption']!r}"]
        raise DataError(
            f"{path} has no column of labels or captions among {', '.join(columns)}; expected e.g. 'label' or 'caption'"
        )
    fields = {"target": known["target"]}
    if first.lower().endswith(VIDEOS):
        numbers = all(_is_number(value) for value in values) and len(set(values)) > 10
        return ("video-regression" if numbers else "video-classification"), fields, []
    if known["text"]:
        return "relational", {**fields, "text": known["text"]}, [f"questions in column {known['text']!r}"]
    if any("|" in value for value in values):
        return "multi-label", fields, []
    if all(value.lower().endswith(PICTURES) for value in values):
        return "segmentation", fields, ["class maps need names: fill in [classes] names"]
    return "image-classification", fields, []


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _of_coco(folder: Path, files: dict[Path, str], about: dict[str, Any]) -> Guess:
    """One file of all pictures, or one for each split, all of one kind."""
    names = [path.name for path in files]
    words = {path.name: set(re.split(r"[^a-z]+", path.stem.casefold())) for path in files}
    splits = {split: name for name in reversed(names) for word in words[name] if (split := SPLIT_WORDS.get(word))}
    if len(set(files.values())) > 1 or (len(files) > 1 and (len(splits) != len(files) or "train" not in splits)):
        raise DataError(
            f"{folder} holds several COCO files: {', '.join(names[:5])}; leave one, or one for each split "
            "(train, val, test) with its name in the file's"
        )
    first, kind = next(iter(files.items()))
    root = next((one for one in (".", "images", "data") if (folder / one / _first_file(first)).is_file()), ".")
    data = {"kind": "coco", "root": root}
    given: dict[str, dict[str, Any]]
    if len(files) == 1:
        given = {"data": {**data, "table": first.name}}
    else:
        given = {"data": data, "splits": {one: splits[one] for one in ("train", "validation", "test") if one in splits}}
    listed = ", ".join(names)
    if kind == "captions":
        said = f"{listed}: COCO captions, to be matched with their pictures"
        return Guess({"benchmark": {**about, "task": "image-text"}, **given}, (said,))
    other = 'task = "image-classification" cuts each out and classifies it instead'
    return Guess(
        {"benchmark": {**about, "task": "detection"}, **given},
        (f"{listed}: COCO boxes, to be found (extra detection)", other),
    )


def _coco_kind(path: Path) -> str:
    """``"captions"``, ``"boxes"``, or nothing for what is no file of COCO's."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return ""
    if not (isinstance(found, dict) and {"images", "annotations"} <= set(found)):
        return ""
    first = next(iter(found["annotations"] or ()), None) if isinstance(found["annotations"], list) else None
    if isinstance(first, dict) and "caption" in first:
        return "captions"
    return "boxes" if "categories" in found else ""


def _first_file(path: Path) -> str:
    images = json.loads(path.read_text(encoding="utf-8"))["images"]
    first = images[0] if isinstance(images, list) and images else None
    return str(first.get("file_name", "")) if isinstance(first, dict) else ""


def _identifier(folder: Path) -> str:
    name = re.sub(r"[^a-z0-9._-]+", "-", folder.resolve().name.casefold()).strip("-._")
    return name or "mine"


def _toml(value: Any) -> str:
    """A value as TOML: its strings and lists are JSON's."""
    return json.dumps(value, ensure_ascii=False)
