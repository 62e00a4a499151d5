"""What a folder seems to hold, as a benchmark's file that a person reads before it is run."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gate_data.cards import is_known
from gate_data.errors import DataError
from gate_data.own.columns import TABLES, Guess, naming, of_tables, refuse_images_inside, splits_in, tables_in
from gate_data.own.layouts import coco_kind, of_coco, recognised
from gate_data.own.webdataset import webdataset_layout
from gate_data.readers import files_of_classes
from gate_data.readers.clips import VIDEOS
from gate_data.readers.folders import PICTURES, SPLIT_WORDS, classes_in, ending_in, is_saved
from gate_data.readers.scanning import inner_folders
from gate_data.readers.source import readable
from gate_data.readers.tables import read_json
from wary_files.durable import write_new
from wary_files.text import number_of


def guess(
    folder: str | os.PathLike[str],
    is_known_set: Callable[[str], bool] = is_known,
    table: str | os.PathLike[str] | None = None,
    target: str = "",
) -> Guess:
    """Look at a folder and say what benchmark it could be.

    Recognised are folders of classes, of images or clips, with or without folders of splits around them (ImageNet's
    own layout); tables, one or one for each split, with a column of paths, and labels, tags, values, questions,
    captions or a second image with a caption of its own; COCO's JSON of boxes or captions, as COCO hands it out or
    beside the images; Pascal VOC's XML files; YOLO's text files, with or without its ``data.yaml``; images and
    class maps in folders of their own; Hugging Face's ``imagefolder`` with its metadata, and what ``datasets`` saved.

    Args:
        folder: to be looked at; or a table, whose paths start at its folder.
        table: the table or COCO file that counts, where the folder holds several.
        is_known_set: whether an id is that of a known data set, for which results on these data could pass.
        target: the column of a table that is to be predicted, where its name says nothing.

    Returns:
        The file's content, and what was found.

    Raises:
        DataError: nothing is recognised, or what looks like splits is not whole; the message says what was there.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"):
        ...     (folder / name).parent.mkdir(exist_ok=True)
        ...     (folder / name).touch()
        >>> guess(folder).values["benchmark"]["task"]
        'image-classification'
    """
    folder, table = Path(folder), None if table is None else Path(table)
    if not folder.exists():
        raise DataError(f"{folder} does not exist; expected a folder, or a table of files and labels")
    if folder.is_file():
        folder, table, called = folder.parent, folder, folder.with_suffix("")
    else:
        called = folder
    if table is not None and not table.is_file():
        table = folder / table
        if not table.is_file():
            raise DataError(f"{table} is not there; expected a table or COCO's JSON file in {folder}")
    identifier = _identifier(called)
    is_taken = is_known_set(identifier)
    try:
        guessed = _named(folder, table, target) if table is not None else _looked_at(folder, target)
    except OSError as error:  # no rights, or a name in a table that no file can have
        raise DataError(f"{folder} cannot be looked at: {error.filename!s:.200}: {error.strerror}") from error
    about = {"id": f"my-{identifier}" if is_taken else identifier, "title": called.name}
    values = {**guessed.values, "benchmark": {**about, **guessed.values["benchmark"]}}
    passing = f"{identifier} is the name of a known data set or pack, for which its results could pass"
    return Guess(values, (*guessed.remarks, *([f"called my-{identifier}: {passing}"] if is_taken else [])))


def _named(folder: Path, path: Path, target: str) -> Guess:
    if path.suffix.lower() == ".json":
        _refuse_target(path, target)
        return of_coco(folder, path)
    if path.suffix.lower() not in TABLES and path.name.lower() != "captions.txt":
        raise DataError(f"{path} is neither a folder nor a table ({', '.join(TABLES)}) nor COCO's JSON")
    return of_tables(folder, [path], target)


def _looked_at(folder: Path, target: str) -> Guess:
    """The first of the layouts that it is: what says most about itself comes first."""
    if is_saved(folder):
        _refuse_target(folder, target)
        return _of_saved(folder)
    if (shards := webdataset_layout(folder)) is not None:
        _refuse_target(folder, target)
        return shards
    metadata = [
        root / name
        for root in (folder, *sorted(entry for entry in folder.iterdir() if entry.name.casefold() in SPLIT_WORDS))
        for name in ("metadata.csv", "metadata.jsonl", "metadata.parquet")
        if (root / name).is_file()
    ]
    if metadata:
        return of_tables(folder, metadata, target)
    tables = tables_in(folder)
    lists = [path for path in sorted(folder.glob("*.json")) if coco_kind(path)]
    if tables and lists:
        listed = ", ".join(path.name for path in (*tables, *lists))
        raise DataError(f"{folder} holds {listed}: {naming(folder, tables[0].name)}")
    guessed = recognised(folder)
    if guessed is None and tables:
        return of_tables(folder, tables, target)
    _refuse_target(folder, target)
    try:
        return guessed or _of_folders(folder)
    except DataError:
        for path in (next(iter(sorted(folder.glob(below))), None) for below in ("*/*.parquet", "*/*/*.parquet")):
            if path is not None:
                refuse_images_inside(path)  # as the hub's repositories are laid out
        raise


def _refuse_target(path: Path, target: str) -> None:
    if target:
        raise DataError(f"{path} is not a table, and {target!r} can be a column of one only")


def _of_saved(folder: Path) -> Guess:
    """What `datasets` saved: its columns are judged as a table's are."""
    parts = [part for part in sorted(folder.iterdir()) if (part / "dataset_info.json").is_file()]
    path = (parts or [folder])[0] / "dataset_info.json"
    content = read_json(path)
    features = content.get("features") if isinstance(content, dict) else None
    if not isinstance(features, dict) or not all(isinstance(kind, dict) for kind in features.values()):
        raise DataError(f"{path} has no 'features', an object of objects")
    pictures = [name for name, kind in features.items() if _type_of(kind) == "Image"]
    if not pictures:
        raise DataError(f"{folder}: datasets saved no column of images among {', '.join(features)}")
    labels = {name: kind for name, kind in features.items() if name not in pictures}

    def first(is_it: Callable[[str, Any], object]) -> str:
        return next((name for name, kind in labels.items() if is_it(name, kind)), "")

    named = ("label", "class", "category")
    captions = ("text", "caption", "captions", "sentence")
    candidates = (
        ("image-classification", "target", first(lambda _, kind: _type_of(kind) == "ClassLabel")),
        ("image-classification", "target", first(lambda name, kind: kind.get("dtype") == "string" and name in named)),
        ("multi-label", "target", first(lambda _, kind: _type_of(kind.get("feature")) == "ClassLabel")),
        ("segmentation", "target", pictures[1] if len(pictures) > 1 else ""),
        ("image-text", "text", first(lambda name, kind: kind.get("dtype") == "string" and name in captions)),
        ("regression", "target", first(lambda _, kind: str(kind.get("dtype", "")).startswith("float"))),
    )
    task, field, column = next((candidate for candidate in candidates if candidate[2]), ("", "", ""))
    if not column:
        raise DataError(f"{folder}: none of the columns {', '.join(features)} is a class, a caption or a number")
    if task == "segmentation":
        raise DataError(f"{folder}: write [classes] names for the maps in {column!r} into a file by hand")
    listed = ", ".join(part.name for part in parts) or "one split"
    how = f"saved by datasets ({listed}), images in {pictures[0]!r}"
    data = {"kind": "datasets", "image": pictures[0], field: column}
    return Guess.of(task, data, splits_in([part.name for part in parts]), [how, f"taken for {task}"])


def _type_of(feature: object) -> object:
    return feature.get("_type") if isinstance(feature, dict) else None


def values_at(values: dict[str, dict[str, Any]], folder: Path, target: Path) -> dict[str, dict[str, Any]]:
    """A guess's values for a file that is to lie in another folder than the one that was looked at.

    Example:
        >>> values_at({"data": {"kind": "folders"}}, Path("photographs"), Path())["data"]["root"]
        'photographs'
    """
    step = os.path.relpath(folder.parent if folder.is_file() else folder, target)
    if step == ".":
        return values

    def moved(path: object) -> str:
        return os.path.normpath(os.path.join(step, str(path)))  # noqa: PTH118 - text in the file

    data = dict(values["data"])
    data["root"] = moved(data.get("root", "."))
    data |= {name: moved(data[name]) for name in ("table", "annotations") if name in data}
    if "roots" in data:
        data["roots"] = {split: moved(root) for split, root in data["roots"].items()}
    moved_values = {**values, "data": data}
    if "splits" in values:
        files = data["kind"] in ("coco", "table") and "table" not in data
        moved_values["splits"] = {
            name: moved(part) if files or str(part).endswith(".txt") else part
            for name, part in values["splits"].items()
        }
    return moved_values


def write_benchmark(values: dict[str, dict[str, Any]], path: Path) -> None:
    """Write a guess's values as a benchmark's file; one that is there already stays.

    Example:
        >>> write_benchmark(guess(Path("birds")).values, Path("birds/benchmark.toml"))  # doctest: +SKIP
    """
    content = benchmark_text(values).encode("utf-8")
    try:
        write_new(path, content)
    except FileExistsError as error:
        raise DataError(f"{path} exists; it was not changed: remove it, or give another name with --output") from error


def benchmark_text(values: dict[str, dict[str, Any]]) -> str:
    """A guess's values as TOML.

    Raises:
        DataError: a path that is not UTF-8, which TOML cannot hold; shows it.

    Example:
        >>> print(benchmark_text({"benchmark": {"id": "birds"}}), end="")
        [benchmark]
        id = "birds"
    """
    for name, fields in values.items():
        if "title" in fields:
            values = {**values, name: {**fields, "title": readable(str(fields["title"]))}}
    for table, fields in values.items():
        for key, value in fields.items():
            if not _is_utf8(str(value)):
                raise DataError(
                    f"{table}.{key} would be {value!r:.200}, which is not UTF-8: rename that file or folder"
                )
    return "\n".join(
        f"[{table}]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in fields.items())
        for table, fields in values.items()
    )


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return "\\udc" not in text  # as Python shows such a path in a list


def _of_folders(folder: Path) -> Guess:
    names = classes_in(folder)
    splits = _within(folder, splits_in(names, exact=True) or _named_after_splits(folder, names))
    inner = folder / names[0]
    if len(names) == 1 and not splits and (recognised(inner) or _holds_splits(inner)):
        raise DataError(f"{folder} holds no data but those in {inner}: name that folder")
    data = {"kind": "folders"}
    places = (
        [folder / names[0]]
        if not splits
        else [Path(entry.path) for name in splits.values() for entry in inner_folders(folder / name)]
    )
    clips = any(_holds(place, VIDEOS) for place in places)
    task, kind, endings = (
        ("video-classification", "clips", VIDEOS) if clips else ("image-classification", "images", PICTURES)
    )
    if not splits:
        files = files_of_classes(folder, endings)
        count = sum(map(len, files.values()))
        remarks = [
            f"{number_of(len(files), 'folder')} of classes, {count} {kind}",
            "test and validation are drawn, by class",
        ]
        return Guess.of(task, data, None, remarks)
    if "train" not in splits:
        raise DataError(f"{folder} has {', '.join(splits.values())} but no train folder: are these splits or classes?")
    classes = [name for name in names if name not in {part.partition("/")[0] for part in splits.values()}]
    if classes:
        raise DataError(
            f"{folder} holds {', '.join(splits.values())}, which look like splits, next to {', '.join(classes[:5])}: "
            f"move one or the other away, or write the file by hand"
        )
    files_by_split = {split: files_of_classes(folder / name, endings) for split, name in splits.items()}
    listed = [
        f"{name}/: {number_of(len(files), 'class', 'classes')}, {sum(map(len, files.values()))} {kind}"
        for name, files in zip(splits.values(), files_by_split.values(), strict=True)
    ]
    return Guess.of(task, data, splits, listed)


def _named_after_splits(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Return the folders whose names hold a split's word, as ``seg_train``; none without train and another."""
    splits = splits_in(name for name in names if not _holds(folder / name, (*PICTURES, *VIDEOS)))
    return splits if "train" in splits and len(splits) > 1 else {}


def _within(folder: Path, splits: Mapping[str, str]) -> dict[str, str]:
    """Return the folders of splits that were unpacked into folders of their own names: ``seg_train/seg_train``."""
    inner = dict(splits)
    for split, name in splits.items():
        while os.listdir(folder / inner[split]) == [name]:  # noqa: PTH208 - names alone are wanted
            inner[split] = f"{inner[split]}/{name}"
    return inner


def _holds(folder: Path, endings: Sequence[str]) -> bool:
    return bool(ending_in(folder, endings))


def _holds_splits(folder: Path) -> bool:
    return bool(splits_in([entry.name for entry in folder.iterdir() if entry.is_dir()], exact=True))


def _identifier(folder: Path) -> str:
    name = re.sub(r"[^a-z0-9._-]+", "-", folder.resolve().name.casefold()).strip("-._")
    return name or "mine"


def _toml(value: Any) -> str:
    """A value as TOML: its strings and lists are JSON's, its tables are not."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(str(key))} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)
