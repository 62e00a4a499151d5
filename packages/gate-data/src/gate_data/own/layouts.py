"""Layouts of pictures with annotations as people download them: COCO, Pascal VOC, YOLO, and class maps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gate_data.errors import DataError
from gate_data.own.annotated import yolo_file
from gate_data.own.columns import scored, splits_in
from gate_data.own.spec import Guess
from gate_data.readers import spread
from gate_data.readers.decode import open_picture
from gate_data.readers.folders import PICTURES, SPLIT_WORDS
from gate_data.readers.json_lists import entries
from gate_data.readers.source import read_text

_PICTURES = ("images", "imgs", "img", "image", "jpegimages", "photos", "pictures", "inputs", "input", "img_dir", "data")
_MAPS = (
    "masks", "mask", "labels", "label", "annotations", "annotation", "annots", "ann_dir", "segmentation",
    "segmentationclass", "segmentations", "gt", "ground_truth", "groundtruth", "targets",
)  # fmt: skip
_AFTER_SPLIT = ("annot", "_labels", "_masks", "_mask", "_annot", "_annotations", "labels", "masks", "_gt")
_NAMES = ("classes.txt", "codes.txt", "labels.txt", "class_names.txt", "label_names.txt", "obj.names", "names.txt")
"""Files of names of classes, a line each."""
_MAPS_READ = 60
"""Class maps that are read to see which values there are."""
_INDEX = 64
"""A value of a class map that is larger than their number by this is no index."""
_START = 65_536
"""Bytes of a JSON file in which its fields are looked for, where its lists are not as they should be."""
_MOST_CLASSES = 99_999
"""The greatest number of a class in YOLO's files: as many classes get a name each."""
_BOXES, _CAPTIONS = "boxes", "captions"


def recognised(folder: Path, about: dict[str, Any]) -> Guess | None:
    """What a folder of pictures with annotations holds, or None where it is none of the known layouts."""
    inner = sorted(one for one in folder.iterdir() if one.is_dir() and not one.name.startswith("."))
    for look in (_yolo, _coco, _voc, _maps):
        found = look(folder, inner, about)
        if found is not None:
            return found
    return None


def of_coco(folder: Path, path: Path, about: dict[str, Any]) -> Guess:
    """One COCO file that a user named, with those of the other splits beside it."""
    kind = coco_kind(path)
    if not kind:
        raise DataError(f"{path} is no COCO file of boxes or captions: it lacks images and annotations with them")
    shape = _without_split(path.name)
    files = [one for one in sorted(path.parent.glob("*.json")) if _without_split(one.name) == shape]
    return _of_coco(folder, dict.fromkeys(files, kind), about, [])


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


def _coco(folder: Path, inner: Sequence[Path], about: dict[str, Any]) -> Guess | None:
    places = [folder, *(one for one in inner if _is_place_of_lists(one.name))]
    files = {path: kind for place in places for path in sorted(place.glob("*.json")) if (kind := coco_kind(path))}
    if not files:
        return None
    boxes = {path: kind for path, kind in files.items() if kind == _BOXES}
    others = [str(path.relative_to(folder)) for path in files if path not in boxes]
    if boxes and others and all(path.parent == folder for path in files):
        listed = ", ".join(str(path.relative_to(folder)) for path in files)
        raise DataError(f"{folder} holds several COCO files: {listed}; name one with --table")
    said = [f"captions, too: --table {others[0]} takes them"] if boxes and others else []
    return _of_coco(folder, boxes or files, about, said)


def _is_place_of_lists(name: str) -> bool:
    return name.casefold() in ("annotations", "annotation", "labels") or name.casefold() in SPLIT_WORDS


def _without_split(name: str) -> str:
    return "".join("" if word in SPLIT_WORDS else word for word in re.split(r"([a-z]+)", name.casefold()))


def _of_coco(folder: Path, files: Mapping[Path, str], about: dict[str, Any], said: list[str]) -> Guess:
    """One file of all pictures, or one for each split, all of one kind."""
    names = [str(path.relative_to(folder)) for path in files]
    splits = splits_in(names)
    if len(files) > 1 and (len(splits) != len(files) or "train" not in splits):
        raise DataError(
            f"{folder} holds several COCO files: {', '.join(names[:5])}; leave one, or one for each split "
            "(train, val, test) with its name in the file's, or name one with --table"
        )
    first, kind = next(iter(files.items()))
    roots = {path: _root_of_coco(folder, path) for path in files}
    data: dict[str, Any] = {"kind": "coco"}
    given: dict[str, dict[str, Any]]
    if len(files) == 1:
        given = {"data": {**data, "root": roots[first], "table": names[0]}}
    else:
        chosen, drawn = scored(splits)
        said = [*said, *drawn]
        by_split = {split: roots[folder / name] for split, name in chosen.items()}
        same = len(set(by_split.values())) == 1
        given = {"data": data | ({"root": by_split["train"]} if same else {"roots": by_split}), "splits": dict(chosen)}
    listed = ", ".join(names)
    if kind == _CAPTIONS:
        what = f"{listed}: COCO captions, to be matched with their pictures"
        return Guess({"benchmark": {**about, "task": "image-text"}, **given}, (what, *said))
    return Guess(
        {"benchmark": {**about, "task": "detection"}, **given}, (f"{listed}: COCO boxes, {_OR_CUT_OUT}", *said)
    )


_OR_CUT_OUT = 'to be found (extra detection); task = "image-classification" cuts each out and classifies it instead'


def _root_of_coco(folder: Path, path: Path) -> str:
    """The folder in which the first picture of a COCO file lies."""
    first = _first(path, "images")
    name = str(first.get("file_name", "")) if first is not None else ""
    word = next(iter(splits_in([path.name])), "")
    places = sorted(_folders(folder), key=lambda one: word not in splits_in([one.name]))  # the split's own first
    places = [path.parent, folder, *places]
    return next((str(one.relative_to(folder)) for one in places if name and (one / name).is_file()), ".")


def _folders(folder: Path, depth: int = 2) -> Iterator[Path]:
    """Folders in a folder, and in these."""
    for one in sorted(folder.iterdir()):
        if one.is_dir() and not one.name.startswith("."):
            yield one
            if depth > 1:
                yield from _folders(one, depth - 1)


def _holds(folder: Path, endings: Sequence[str]) -> bool:
    return folder.is_dir() and any(one.suffix.lower() in endings for one in folder.iterdir() if one.is_file())


def _voc(folder: Path, inner: Sequence[Path], about: dict[str, Any]) -> Guess | None:
    lists = folder / "ImageSets" / "Main"
    if (folder / "JPEGImages").is_dir() and _holds(folder / "Annotations", (".xml",)):
        data = {"root": "JPEGImages", "annotations": "Annotations/*.xml"}
        splits = {
            split: f"ImageSets/Main/{word}.txt"
            for split, word in (("train", "train"), ("validation", "val"), ("test", "test"))
            if (lists / f"{word}.txt").is_file()
        }
        if "test" in splits and not _is_annotated(folder, lists / "test.txt"):
            del splits["test"]  # as VOC2012 is handed out
        return _of_voc(data, splits if "train" in splits else {}, about)
    by_split = splits_in([one.name for one in inner if _holds(one, (".xml",)) and _holds(one, PICTURES)])
    if "train" in by_split:
        return _of_voc({"root": ".", "annotations": "{}/*.xml"}, by_split, about)
    if _holds(folder, (".xml",)) and _holds(folder, PICTURES):
        return _of_voc({"root": ".", "annotations": "*.xml"}, {}, about)
    for place in inner:
        pictures = [one for one in (*inner, folder) if one != place and _in_either(one)]
        if not pictures:
            continue
        root = str(pictures[0].relative_to(folder))
        if _holds(place, (".xml",)):
            return _of_voc({"root": root, "annotations": f"{place.name}/*.xml"}, {}, about)
        splits = splits_in([one.name for one in sorted(place.iterdir()) if _holds(one, (".xml",))])
        if splits and all(_holds(pictures[0] / name, PICTURES) for name in splits.values()):
            return _of_voc({"root": root, "annotations": f"{place.name}/{{}}/*.xml"}, splits, about)
    return None


def _in_either(folder: Path) -> bool:
    return _holds(folder, PICTURES) or any(_holds(folder / word, PICTURES) for word in SPLIT_WORDS)


def _is_annotated(folder: Path, path: Path) -> bool:
    first = read_text(path).split(maxsplit=1)
    return bool(first) and (folder / "Annotations" / f"{first[0]}.xml").is_file()


def _of_voc(data: dict[str, Any], splits: dict[str, str], about: dict[str, Any]) -> Guess:
    chosen, said = scored(splits)
    parts = {"benchmark": {**about, "task": "detection"}, "data": {"kind": "voc", **data}}
    where = f"{data['annotations']}: Pascal VOC boxes, {_OR_CUT_OUT}"
    return Guess({**parts, **({"splits": chosen} if chosen else {})}, (where, *said))


def _yolo(folder: Path, inner: Sequence[Path], about: dict[str, Any]) -> Guess | None:
    for path in sorted((*folder.glob("*.yaml"), *folder.glob("*.yml"))):
        content = _yaml(path)
        if isinstance(content, dict) and "names" in content and "train" in content:
            return _of_yaml(folder, path, content, about)
    names = next((folder / one for one in _NAMES if (folder / one).is_file()), None)
    places = [one for one in (folder, *_folders(folder)) if _holds(one, PICTURES)]
    places = [one for one in places if any(yolo_file(picture).is_file() for picture in _some(one))]
    if not places:
        return None
    splits = splits_in([str(one.relative_to(folder)) for one in places])
    if len(places) > 1 and "train" not in splits:
        return None
    if names is None:
        names = next((place / one for place in _folders(folder) for one in _NAMES if (place / one).is_file()), None)
    files = [file for place in places for file in map(yolo_file, _some(place, 10**6)) if file.is_file()]
    given = _lines(names) if names is not None else ()
    said = [f"{len(files)} text files of YOLO's form beside their pictures, {_OR_CUT_OUT}"]
    if not given:
        given = tuple(f"class {number}" for number in range(_most_of_yolo(files) + 1))
        said.append("names of classes are not there (classes.txt, data.yaml): fill in [classes] names")
    return _of_yolo(given, splits if len(places) > 1 else {}, places[0].relative_to(folder), about, said)


def _of_yaml(folder: Path, path: Path, content: dict[str, Any], about: dict[str, Any]) -> Guess:
    names = content["names"]
    if isinstance(names, dict) and {*map(type, names)} == {int}:
        names = [names[key] for key in sorted(names)]
    if not isinstance(names, list) or not names or any(isinstance(name, list | dict) for name in names):
        raise DataError(f"{path}: 'names' is no list of names, and no names by their numbers")
    splits: dict[str, str] = {}
    for split, word in (("train", "train"), ("validation", "val"), ("test", "test")):
        value = content.get(word) or (content.get("valid") if word == "val" else None)
        if not value:
            continue
        if not isinstance(value, str):
            raise DataError(f"{path}: {word!r} is no path; gate-runner takes one folder or list for each split")
        place = _of_yolo_path(folder, _text(content.get("path")), value)
        if place is None and split == "test":
            continue  # often named, and not handed out
        if place is None:
            raise DataError(f"{path}: {word} is {value!r}, which is neither a folder nor a list in {folder}")
        if place not in splits.values():
            splits[split] = place
    return _of_yolo(names, splits, Path(), about, [f"{path.name}: YOLO's boxes, {_OR_CUT_OUT}"])


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _of_yolo_path(folder: Path, base: str, value: str) -> str | None:
    """A path of YOLO's file from the folder; such files are written for other machines, so its start may not hold."""
    parts = [part for part in Path(value).parts if part not in ("..", ".", "/")]
    tries = [Path(base) / value, Path(value), *(Path(*parts[start:]) for start in range(len(parts)))]
    for one in tries:
        place = folder / one
        if place.exists() and place.resolve().is_relative_to(folder.resolve()):
            return str(place.resolve().relative_to(folder.resolve()))
    return None


def _of_yolo(names: Sequence[Any], splits: dict[str, str], root: Path, about: dict[str, Any], said: list[str]) -> Guess:
    chosen, drawn = scored(splits)
    parts: dict[str, dict[str, Any]] = {
        "benchmark": {**about, "task": "detection"},
        "data": {"kind": "yolo", "root": "." if splits else str(root)},
        **({"splits": chosen} if chosen else {}),
        "classes": {"names": [str(name) for name in names]},
    }
    return Guess(parts, (*said, *drawn))


def _yaml(path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(read_text(path))
    except (ValueError, yaml.YAMLError, RecursionError):
        return None


def _most_of_yolo(files: Sequence[Path]) -> int:
    numbers = {line.split()[0]: file for file in files for line in read_text(file).splitlines() if line.strip()}
    if not numbers or not all(number.isdecimal() for number in numbers):
        raise DataError(f"{files[0]} and the others are not of YOLO's form: a line begins with the number of a class")
    longest = max(numbers, key=lambda number: (len(number), number))
    if len(longest) > len(str(_MOST_CLASSES)):
        raise DataError(f"{numbers[longest]}: a class has the number {longest:.20}, more than {_MOST_CLASSES:,}")
    return max(map(int, numbers))


def _some(folder: Path, count: int = 5) -> list[Path]:
    """A few pictures of a folder."""
    found = sorted(one for one in folder.iterdir() if one.suffix.lower() in PICTURES and not one.name.startswith("."))
    return found[:count]


def _lines(path: Path) -> tuple[str, ...]:
    return tuple(line.strip() for line in read_text(path).splitlines() if line.strip())


def _maps(folder: Path, inner: Sequence[Path], about: dict[str, Any]) -> Guess | None:
    """Pictures and class maps of their names, in folders that are called so."""
    by_name = {one.name.casefold(): one.name for one in inner}
    pictures = next((by_name[name] for name in _PICTURES if name in by_name), "")
    maps = next((by_name[name] for name in _MAPS if name in by_name and by_name[name] != pictures), "")
    found: tuple[str, str, dict[str, str]] | None = None
    if pictures and maps:
        splits = splits_in(sorted(one.name for one in (folder / pictures).iterdir() if one.is_dir()))
        found = pictures, f"{maps}/{{}}/" if splits else f"{maps}/", splits
    else:
        splits = splits_in([one.name for one in inner if one.name.casefold() in SPLIT_WORDS])
        after = next((end for end in _AFTER_SPLIT if splits and f"{splits.get('train')}{end}" in by_name.values()), "")
        if after:
            found = ".", f"{{}}{after}/", splits
        elif splits and (here := folder / splits.get("train", "")).is_dir():
            within = {one.name.casefold(): one.name for one in here.iterdir() if one.is_dir()}
            pictures = next((within[name] for name in _PICTURES if name in within), "")
            maps = next((within[name] for name in _MAPS if name in within and within[name] != pictures), "")
            if pictures and maps:
                splits = {split: f"{name}/{pictures}" for split, name in splits.items()}
                found = ".", f"{{}}/../{maps}/", splits
    if found is None:
        return None
    root, place, splits = found
    first = _some(folder / root / splits["train"] if "train" in splits else folder / root, 1)
    near = folder / place.replace("{}", splits.get("train", ""))
    if not first or not near.is_dir() or ("train" not in splits and splits):
        return None
    stem = first[0].stem
    ends = [one for one in near.iterdir() if one.name.startswith(stem) and one.suffix.lower() in PICTURES]
    if not ends:
        return None
    end = min(ends, key=lambda one: len(one.name)).name[len(stem) :]
    chosen, said = scored(splits)
    pattern = f"{place}*{end}"
    classes, told = _classes_of_maps(folder, near, end)
    parts: dict[str, dict[str, Any]] = {
        "benchmark": {**about, "task": "segmentation"},
        "data": {"kind": "maps", "root": root, "annotations": pattern, **classes.pop("data", {})},
        **({"splits": chosen} if chosen else {}),
        "classes": classes,
    }
    return Guess(parts, (f"{pattern}: a class map for each picture of {root}", *said, *told))


def _classes_of_maps(folder: Path, maps: Path, end: str) -> tuple[dict[str, Any], list[str]]:
    """Fields of the classes, by the values that some of the maps have."""
    files = sorted(one for one in maps.iterdir() if one.name.endswith(end))
    files = [files[row] for row in spread([0] * len(files), min(len(files), _MAPS_READ))]
    table = folder / "class_dict.csv"
    if table.is_file():
        return _of_class_dict(table)
    values: set[int] = set()
    for file in files:
        with open_picture(str(file)) as image:
            read = np.asarray(image)
        if read.ndim != 2:
            return _of_colours(files)
        values |= {int(value) for value in np.unique(read)}
        if len(values) > 4 * _INDEX and read.dtype == np.uint8:
            break
    others = sorted(values - {255})
    if values == {0, 255} or values == {0, 1}:
        names = ["background", "foreground"]
        data: dict[str, Any] = {"data": {"ignored": []}} if 255 in values else {}
        return {"names": names, **({"values": [0, 255]} if 255 in values else {}), **data}, [
            "two values: background, foreground"
        ]
    if not others or others[-1] > len(others) + _INDEX:
        listed = ", ".join(map(str, sorted(values)[:12]))
        raise DataError(f"{maps}: the values of the class maps ({listed} …) are no numbers of classes")
    given = next((_lines(folder / name) for name in _NAMES if (folder / name).is_file()), ())
    said = [
        f"class maps have the values {_spans(others)}" + (", and 255, which counts nowhere" if 255 in values else "")
    ]
    if len(given) > others[-1]:
        return {"names": list(given)}, said
    said.append("names of the values are not there (classes.txt): [classes] names can say them")
    return {"names": [f"class {value}" for value in others], "values": others}, said


def _of_colours(files: Sequence[Path]) -> tuple[dict[str, Any], list[str]]:
    colours: set[tuple[int, int, int]] = set()
    for file in files:
        with open_picture(str(file)) as image:
            pixels = np.asarray(image.convert("RGB").resize((256, 256), Image.Resampling.NEAREST)).reshape(-1, 3)
        colours |= {(int(red), int(green), int(blue)) for red, green, blue in np.unique(pixels, axis=0)}
        if len(colours) > _INDEX:
            raise DataError(f"{file} has more than {_INDEX} colours: save class maps as PNG without smoothing")
    listed = sorted(colours)
    return (
        {
            "names": [f"colour {red} {green} {blue}" for red, green, blue in listed],
            "colours": [list(one) for one in listed],
        },
        [f"coloured class maps, {len(listed)} colours: [classes] names can say what they are"],
    )


def _of_class_dict(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Names and colours, as CamVid is handed out on Kaggle."""
    from gate_data.readers import table

    rows = list(table(path, ["name", "r", "g", "b"]))
    colours = [[row.integer(channel, 0, 255) for channel in "rgb"] for row in rows]
    return {"names": [row.text("name") for row in rows], "colours": colours}, [f"{path.name}: {len(rows)} colours"]


def _spans(values: Sequence[int]) -> str:
    """``0 to 11``, or the numbers where there are gaps."""
    if list(values) == list(range(values[0], values[-1] + 1)):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values[:12])) + (" …" if len(values) > 12 else "")
