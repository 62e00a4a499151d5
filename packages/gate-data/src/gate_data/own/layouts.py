"""Layouts of images with annotations as people download them: COCO, Pascal VOC, YOLO; class maps: `map_layouts`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gate_data.errors import DataError
from gate_data.own.annotated import first_pictures, yolo_file
from gate_data.own.class_names import listed_names
from gate_data.own.columns import Guess, naming, roots_of, splits_in
from gate_data.own.map_layouts import maps_layout
from gate_data.readers.folders import PICTURES, SPLIT_WORDS, may_be_class
from gate_data.readers.json_lists import entries
from gate_data.readers.scanning import endings_in, inner_folders, scanned
from gate_data.readers.source import read_text

_START = 65_536
"""Bytes of a JSON file in which its fields are looked for, where its lists are not as they should be."""
_MOST_CLASSES = 99_999
"""The greatest number of a class in YOLO's files: as many classes get a name each."""
_NUMBER = re.compile(r"[0-9]{1,9}")
_BOXES, _CAPTIONS = "boxes", "captions"
_OR_CUT_OUT = (
    'to be found (needs gate-runner[detection]); task = "image-classification" cuts each out and classifies it instead'
)
_LISTS = (("train", "train"), ("validation", "val"), ("test", "test"))
"""What VOC and YOLO call the splits."""


def recognised(folder: Path) -> Guess | None:
    """What a folder of images with annotations holds, or None where it is none of the known layouts."""
    inner = sorted(folder / entry.name for entry in inner_folders(folder) if may_be_class(entry.name))
    looks = (look(folder, inner) for look in (_yolo, _coco, _voc, maps_layout))
    return next((guessed for guessed in looks if guessed is not None), None)


def of_coco(folder: Path, path: Path) -> Guess:
    """One COCO file that a user named, with those of the other splits beside it."""
    kind = coco_kind(path)
    if not kind:
        raise DataError(f"{path} is no COCO file of boxes or captions: it lacks images and annotations with them")
    shape = _without_split(path.name)
    files = [file for file in sorted(path.parent.glob("*.json")) if _without_split(file.name) == shape]
    return _of_coco(folder, dict.fromkeys(files, kind), [])


def _without_split(name: str) -> str:
    return "".join("" if word in SPLIT_WORDS else word for word in re.split(r"([a-z]+)", name.casefold()))


def coco_kind(path: Path) -> str:
    """``"captions"``, ``"boxes"``, or nothing for what is no file of COCO's; no more of it is read than is needed."""
    if not path.is_file():  # a pipe is waited for without end
        return ""
    try:
        with path.open("rb") as file:
            start = file.read(_START)
    except OSError:
        return ""
    first = _first(path, "annotations")
    if first is None:  # none there, or not as COCO has it, of which the reader says more
        return _BOXES if b'"images"' in start and b'"annotations"' in start else ""
    if _first(path, "images") is None:
        return ""
    return _CAPTIONS if "caption" in first else _BOXES if "bbox" in first and "keypoints" not in first else ""


def _first(path: Path, field: str) -> dict[str, Any] | None:
    """The first object of a list; later ones are not read."""
    try:
        entry = next((entry for _, entry in entries(path, field)), None)
    except (OSError, ValueError, RecursionError, DataError):
        return None
    return entry if isinstance(entry, dict) else None


def _coco(folder: Path, inner: Sequence[Path]) -> Guess | None:
    words = ("annotations", "annotation", "labels", *SPLIT_WORDS)
    places = [folder, *(entry for entry in inner if entry.name.casefold() in words)]
    files = {path: kind for root in places for path in sorted(root.glob("*.json")) if (kind := coco_kind(path))}
    if not files:
        return None
    boxes = {path: kind for path, kind in files.items() if kind == _BOXES}
    further = [str(path.relative_to(folder)) for path in files if path not in boxes]
    if boxes and further and all(path.parent == folder for path in files):
        listed = ", ".join(str(path.relative_to(folder)) for path in files)
        raise DataError(f"{folder} holds several COCO files: {listed}; {naming(folder, further[0])}")
    remarks = [f"captions, too: table = {further[0]!r} takes them"] if boxes and further else []
    return _of_coco(folder, boxes or files, remarks)


def _of_coco(folder: Path, files: Mapping[Path, str], remarks: Sequence[str]) -> Guess:
    """One file of all images, or one for each split, all of one kind."""
    names = [str(path.relative_to(folder)) for path in files]
    splits = splits_in(names)
    if len(files) > 1 and (len(splits) != len(files) or "train" not in splits):
        raise DataError(
            f"{folder} holds several COCO files: {', '.join(names[:5])}; leave one, or one for each split "
            f"(train, val, test) with its name in the file's, or {naming(folder, names[0])}"
        )
    first, kind = next(iter(files.items()))
    task, how = "detection", f"boxes, {_OR_CUT_OUT}"
    if kind == _CAPTIONS:
        task, how = "image-text", "captions, to be matched with their images"
    remarks = [f"{', '.join(names)}: COCO {how}", *remarks]
    if len(files) == 1:
        data = {"kind": "coco", "root": _root_of_coco(folder, first), "table": names[0]}
        return Guess.of(task, data, None, remarks)
    roots = {split: _root_of_coco(folder, folder / name) for split, name in splits.items()}
    return Guess.of(task, {"kind": "coco", **roots_of(roots)}, splits, remarks)


def _root_of_coco(folder: Path, path: Path) -> str:
    """The folder in which the first image of a COCO file lies."""
    first = _first(path, "images")
    name = str(first.get("file_name", "")) if first is not None else ""
    word = next(iter(splits_in([path.name])), "")
    places = sorted(_folders(folder), key=lambda root: word not in splits_in([root.name]))  # the split's own first
    places = [path.parent, folder, *places]
    return next((str(root.relative_to(folder)) for root in places if name and (root / name).is_file()), ".")


def _folders(folder: Path, depth: int = 2) -> Iterator[Path]:
    """Folders in a folder, and in these."""
    for name in sorted(entry.name for entry in inner_folders(folder) if not entry.name.startswith(".")):
        yield folder / name
        if depth > 1:
            yield from _folders(folder / name, depth - 1)


def _holds(folder: Path, endings: Sequence[str]) -> bool:
    known = tuple(endings)
    return (
        folder.is_dir()
        and not endings_in(folder).isdisjoint(known)
        and any(entry.name.lower().endswith(known) and entry.is_file() for entry in scanned(folder))
    )


def _voc(folder: Path, inner: Sequence[Path]) -> Guess | None:
    lists = folder / "ImageSets" / "Main"
    if (folder / "JPEGImages").is_dir() and _holds(folder / "Annotations", (".xml",)):
        names = {split: f"ImageSets/Main/{word}.txt" for split, word in _LISTS if (lists / f"{word}.txt").is_file()}
        if "test" in names and not _is_annotated(folder, lists / "test.txt"):
            del names["test"]  # as VOC2012 is handed out
        return _of_voc("JPEGImages", "Annotations/*.xml", names if "train" in names else {})
    by_split = splits_in([entry.name for entry in inner if _holds(entry, (".xml",)) and _holds(entry, PICTURES)])
    if "train" in by_split:
        return _of_voc(".", "{}/*.xml", by_split)
    if _holds(folder, (".xml",)) and _holds(folder, PICTURES):
        return _of_voc(".", "*.xml", {})
    for labelled in inner:
        pictures = next((entry for entry in (*inner, folder) if entry != labelled and _in_either(entry)), None)
        if pictures is None:
            continue
        root = str(pictures.relative_to(folder))
        if _holds(labelled, (".xml",)):
            return _of_voc(root, f"{labelled.name}/*.xml", {})
        parts = sorted(entry.name for entry in inner_folders(labelled))
        splits = splits_in([name for name in parts if _holds(labelled / name, (".xml",))])
        if splits and all(_holds(pictures / name, PICTURES) for name in splits.values()):
            return _of_voc(root, f"{labelled.name}/{{}}/*.xml", splits)
    return None


def _in_either(folder: Path) -> bool:
    return _holds(folder, PICTURES) or any(_holds(folder / word, PICTURES) for word in SPLIT_WORDS)


def _is_annotated(folder: Path, path: Path) -> bool:
    first = read_text(path).split(maxsplit=1)
    return bool(first) and (folder / "Annotations" / f"{first[0]}.xml").is_file()


def _of_voc(root: str, annotations: str, splits: Mapping[str, str]) -> Guess:
    data = {"kind": "voc", "root": root, "annotations": annotations}
    return Guess.of("detection", data, splits, [f"{annotations}: Pascal VOC boxes, {_OR_CUT_OUT}"])


def _yolo(folder: Path, inner: Sequence[Path]) -> Guess | None:
    del inner
    named: tuple[str, ...] = ()
    for path in sorted((*folder.glob("*.yaml"), *folder.glob("*.yml"))):
        content = _yaml(path)
        if isinstance(content, dict) and "names" in content:
            if "train" in content:
                return _of_yaml(folder, path, content)
            named, written = _names_of_yaml(path, content), path
    places = [root for root in (folder, *_folders(folder)) if _holds(root, PICTURES)]
    places = [root for root in places if _has_yolo_files(root)]
    if not places:
        return None
    splits = splits_in([str(root.relative_to(folder)) for root in places])
    if len(places) > 1 and "train" not in splits:
        return None
    files = [file for root in places for file in map(yolo_file, first_pictures(root, 10**6)) if file.is_file()]
    remarks = [f"{len(files)} text files of YOLO's form next to their images, {_OR_CUT_OUT}"]
    classes, listed = listed_names(folder, *_folders(folder))
    if named and classes and named != classes:
        first = next((at for at, pair in enumerate(zip(named, classes, strict=False)) if len({*pair}) > 1), 0)
        raise DataError(
            f"{written} and {listed} name the classes otherwise: {named[first]!r}, {classes[first]!r} …; remove one"
        )
    classes = named or classes
    if not classes:
        classes = tuple(f"class {number}" for number in range(_most_of_yolo(files) + 1))
        remarks.append("names of classes are not there (classes.txt, data.yaml): fill in [classes] names")
    return _of_yolo(classes, splits if len(places) > 1 else {}, str(places[0].relative_to(folder)), remarks)


def _has_yolo_files(root: Path) -> bool:
    """Whether one of a folder's first images has a text file of YOLO's."""
    if yolo_file(root / "0.jpg").parent == root and ".txt" not in endings_in(root):
        return False
    return any(yolo_file(picture).is_file() for picture in first_pictures(root))


def _of_yaml(folder: Path, path: Path, content: dict[str, Any]) -> Guess:
    names = _names_of_yaml(path, content)
    base = content.get("path")
    splits: dict[str, str] = {}
    for split, word in _LISTS:
        value = content.get(word) or (content.get("valid") if word == "val" else None)
        if not value:
            continue
        if not isinstance(value, str):
            raise DataError(f"{path}: {word!r} is no path; gate-runner takes one folder or list for each split")
        part = _of_yolo_path(folder, base if isinstance(base, str) else "", value)
        if part is None and split != "test":  # which is often named, and not handed out
            raise DataError(f"{path}: {word} is {value!r}, which is neither a folder nor a list in {folder}")
        if part is not None and part not in splits.values():
            splits[split] = part
    return _of_yolo(names, splits, ".", [f"{path.name}: YOLO's boxes, {_OR_CUT_OUT}"])


def _names_of_yaml(path: Path, content: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of classes by their numbers; what has none is called by its number."""
    names = content["names"]
    if "kpt_shape" in content:
        raise DataError(
            f"{path}: 'kpt_shape' says that each line has keypoints behind its box, which are not read: write lines of "
            "CLASS X Y WIDTH HEIGHT, and leave 'kpt_shape' out"
        )
    if isinstance(names, dict) and all(isinstance(key, str) and _NUMBER.fullmatch(key) for key in names):
        by_number = {int(key): name for key, name in names.items()}
        if len(by_number) < len(names):
            raise DataError(f"{path}: 'names' has two names for one number, such as 1 and 01")
        if by_number and max(by_number) <= _MOST_CLASSES:
            names = [by_number.get(number, f"class {number}") for number in range(max(by_number) + 1)]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise DataError(f"{path}: 'names' is no list of names, and no names by their numbers")
    count = content.get("nc", "")
    if isinstance(count, str) and _NUMBER.fullmatch(count) and int(count) != len(names):
        raise DataError(f"{path}: 'nc' is {count}, and 'names' has {len(names)}; expected the same number")
    return tuple(names)


def _of_yolo_path(folder: Path, base: str, value: str) -> str | None:
    """A path of YOLO's file from the folder; such files are written for other machines, so its start may not hold."""
    parts = [part for part in Path(value).parts if part not in ("..", ".", "/")]
    tries = [Path(base) / value, Path(value), *(Path(*parts[start:]) for start in range(len(parts)))]
    for tail in tries:
        path = folder / tail
        if path.exists() and path.resolve().is_relative_to(folder.resolve()):
            return str(path.resolve().relative_to(folder.resolve()))
    return None


def _of_yolo(names: Sequence[Any], splits: Mapping[str, str], root: str, remarks: Sequence[str]) -> Guess:
    data = {"kind": "yolo", "root": "." if splits else root}
    return Guess.of("detection", data, splits, remarks, {"names": [str(name) for name in names]})


def _yaml(path: Path) -> Any:
    """Return lists, mappings and texts; by YAML's rules ``no`` would be a truth value, and ``007`` a 7."""
    import yaml

    try:
        text = read_text(path)
        content = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - which makes nothing but these
        is_list = isinstance(content, dict) and "names" in content
        twice = _twice(yaml.compose(text, yaml.BaseLoader)) if is_list else ""
    except (ValueError, yaml.YAMLError, RecursionError):
        return None
    if twice:
        raise DataError(f"{path}: the key {twice[:80]!r} comes twice in one mapping")
    return content


def _twice(node: Any) -> str:
    """Return a key that comes twice in one of a YAML node's mappings, of which the last would count; empty for none."""
    waiting, walked = [node], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in walked or isinstance(node.value, str):
            continue
        walked.add(id(node))
        keys = [key for entry in node.value if isinstance(entry, tuple) and isinstance(key := entry[0].value, str)]
        if len(set(keys)) < len(keys):
            return next(key for key in keys if keys.count(key) > 1)
        waiting += [part for entry in node.value for part in (entry if isinstance(entry, tuple) else (entry,))]
    return ""


def _most_of_yolo(files: Sequence[Path]) -> int:
    numbers = {line.split()[0]: file for file in files for line in read_text(file).split("\n") if line.strip()}
    if not numbers or not all(number.isdecimal() for number in numbers):
        raise DataError(f"{files[0]} and the others are not of YOLO's form: a line begins with the number of a class")
    longest = max(numbers, key=lambda number: (len(number), number))
    if len(longest) > len(str(_MOST_CLASSES)):
        raise DataError(f"{numbers[longest]}: a class has the number {longest:.20}, more than {_MOST_CLASSES:,}")
    return max(map(int, numbers))
