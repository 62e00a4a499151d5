"""Images beside class maps as people download them: which folder holds which, and what classes the maps show."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gate_data.errors import DataError
from gate_data.own.annotated import first_pictures
from gate_data.own.class_names import listed_names
from gate_data.own.columns import Guess, splits_in
from gate_data.readers import table
from gate_data.readers.decode import open_picture
from gate_data.readers.folders import PICTURES, SPLIT_WORDS
from gate_data.readers.maps import whole_numbers
from gate_data.readers.splits import spread
from wary_files.limits import reading

_PICTURES = ("images", "imgs", "img", "image", "jpegimages", "photos", "pictures", "inputs", "input", "img_dir", "data")
_MAPS = (
    "masks", "mask", "labels", "label", "annotations", "annotation", "annots", "ann_dir", "segmentation",
    "segmentationclass", "segmentations", "gt", "ground_truth", "groundtruth", "targets",
)  # fmt: skip
_AFTER_SPLIT = ("annot", "_labels", "_masks", "_mask", "_annot", "_annotations", "labels", "masks", "_gt")
_MAPS_READ = 60
"""Class maps that are read to see which values there are."""
_PICTURES_TRIED = 40
"""Images for which a class map is looked for, to see how maps are called."""
_INDEX = 64
"""A value of a class map that is larger than their number by this is no index."""


def maps_layout(folder: Path, inner: Sequence[Path]) -> Guess | None:
    """Images and class maps of their names, in folders that are called so."""
    layout = _places(folder, [entry.name for entry in inner])
    if layout is None:
        return None
    root, start, splits = layout
    first = first_pictures(folder / root / splits.get("train", ""), _PICTURES_TRIED)
    near = folder / start.replace("{}", splits.get("train", ""))
    if not first or not near.is_dir() or ("train" not in splits and splits):
        return None
    names = [entry.name for entry in sorted(near.iterdir()) if entry.suffix.lower() in PICTURES]
    names = [name for name in names if not name.startswith(".")]
    ends = Counter(end for picture in first if (end := _shortest_end(picture.stem, names)))
    if not ends:
        if not names:
            return None
        raise DataError(
            f"{near} looks like class maps of the images in {first[0].parent}, and none is called as one of them: "
            f"{names[0]}, {first[0].name}"
        )
    end = ends.most_common(1)[0][0]
    classes, remarks = _classes_of_maps(folder, near, end)
    pattern = f"{start}*{end}"
    data: dict[str, Any] = {"kind": "maps", "root": root, "annotations": pattern}
    if 255 in classes.get("values", ()):
        data["ignored"] = []
    parts = list(dict.fromkeys(splits.values())) or [""]
    maps = ", ".join(os.path.normpath(pattern.replace("{}", name)) for name in parts)
    pictures = ", ".join(os.path.normpath(f"{root}/{name}") for name in parts)
    how = f"{maps}: a class map for each image of {pictures}"
    return Guess.of("segmentation", data, splits, [how, *remarks], classes)


def _shortest_end(stem: str, names: Sequence[str]) -> str:
    """Return what stands behind an image's name in that of its map; empty without one."""
    return min((name[len(stem) :] for name in names if name.startswith(stem)), key=len, default="")


def _places(folder: Path, names: Sequence[str]) -> tuple[str, str, dict[str, str]] | None:
    """The folder of images, where class maps lie, with ``{}`` for a split's subfolder, and these subfolders."""
    pictures, maps = _pair(names)
    if pictures and maps:
        splits = splits_in(sorted(entry.name for entry in (folder / pictures).iterdir() if entry.is_dir()))
        return pictures, f"{maps}/{{}}/" if splits else f"{maps}/", splits
    splits = splits_in([name for name in names if name.casefold() in SPLIT_WORDS])
    if not splits:
        return None
    if after := next((end for end in _AFTER_SPLIT if f"{splits.get('train')}{end}" in names), ""):
        return ".", f"{{}}{after}/", splits
    train = folder / splits.get("train", "")
    pictures, maps = _pair([entry.name for entry in train.iterdir() if entry.is_dir()])
    if pictures and maps:
        return ".", f"{{}}/../{maps}/", {split: f"{name}/{pictures}" for split, name in splits.items()}
    return None


def _pair(names: Sequence[str]) -> tuple[str, str]:
    """Which of some folders hold images, and which their class maps; empty where none is called so."""
    by_name = {name.casefold(): name for name in names}
    pictures = next((by_name[name] for name in _PICTURES if name in by_name), "")
    return pictures, next((by_name[name] for name in _MAPS if name in by_name and by_name[name] != pictures), "")


def _classes_of_maps(folder: Path, maps: Path, end: str) -> tuple[dict[str, Any], list[str]]:
    """Fields of the classes, by the values that some of the maps have."""
    path = folder / "class_dict.csv"  # names and colours, as CamVid is handed out on Kaggle
    if path.is_file():
        rows = list(table(path, ["name", "r", "g", "b"]))
        colours = [[row.integer(channel, 0, 255) for channel in "rgb"] for row in rows]
        return {"names": [row.text("name") for row in rows], "colours": colours}, [f"{path.name}: {len(rows)} colours"]
    files = sorted(map_file for map_file in maps.iterdir() if map_file.name.endswith(end))
    files = [files[row] for row in spread([0] * len(files), _MAPS_READ)]
    values: set[int] = set()
    colour_of: dict[int, tuple[tuple[int, ...], Path]] = {}
    smoothed: Path | None = None
    for file in files:
        with reading(str(file), "a class map"), open_picture(str(file)) as image:
            read = np.asarray(image)
            smoothed = file if image.format == "JPEG" else smoothed
            palette = (image.getpalette("RGB") or []) if image.mode == "P" else []
        if read.ndim != 2:
            return _of_colours(files)
        shown = {int(value) for value in np.unique(whole_numbers(read, str(file)))}
        values |= shown
        for value in sorted(shown) if palette else ():
            colour = tuple(palette[3 * value : 3 * value + 3])
            first, where = colour_of.setdefault(value, (colour, file))
            if first != colour:
                raise DataError(
                    f"value {value} has the colour {first} in {where} and {colour} in {file}: which is one class? Save "
                    "class maps with one palette, or as RGB; [classes] values in a benchmark.toml take them by number"
                )
        if len(values) > 4 * _INDEX and read.dtype == np.uint8:
            break
    if smoothed is not None and not values <= {0, 255}:
        raise DataError(f"{smoothed} is a JPEG, whose values are smoothed: save class maps as PNG")
    lines, names_file = listed_names(folder)
    if values in ({0, 255}, {0, 1}):
        numbers = {"values": [0, 255]} if 255 in values else {}
        if len(lines) == 2:
            return {"names": list(lines), **numbers}, [f"two values: {', '.join(lines)}"]
        return {"names": ["background", "foreground"], **numbers}, ["two values: background, foreground"]
    indices = sorted(values - {255})
    if not indices or indices[-1] > len(indices) + _INDEX:
        listed = ", ".join(map(str, sorted(values)[:12]))
        raise DataError(f"{maps}: the values of the class maps ({listed} …) are no numbers of classes")
    counts_nowhere = ", and 255, which counts nowhere" if 255 in values else ""
    remarks = [f"class maps have the values {_spans(indices)}{counts_nowhere}"]
    if len(lines) > indices[-1]:
        return {"names": list(lines)}, remarks
    if names_file is None:
        remarks.append("names of the values are not there (classes.txt): [classes] names can say them")
    else:
        remarks.append(
            f"{names_file.name} has {len(lines)} lines, too few for value {indices[-1]} (the first is that of 0), and "
            "is not used: [classes] names and values can say which is which"
        )
    return {"names": [f"class {value}" for value in indices], "values": indices}, remarks


def _of_colours(files: Sequence[Path]) -> tuple[dict[str, Any], list[str]]:
    colours: set[tuple[int, int, int]] = set()
    for file in files:
        with reading(str(file), "a class map"), open_picture(str(file)) as image:
            smoothed = image.format == "JPEG"
            pixels = np.asarray(image.convert("RGB").resize((256, 256), Image.Resampling.NEAREST)).reshape(-1, 3)
        colours |= {(int(red), int(green), int(blue)) for red, green, blue in np.unique(pixels, axis=0)}
        if len(colours) > (2 if smoothed else _INDEX):
            why = "is a JPEG, whose colours are smoothed" if smoothed else f"has more than {_INDEX} colours"
            raise DataError(f"{file} {why}: save class maps as PNG without smoothing")
    listed = [list(colour) for colour in sorted(colours)]
    names = ["colour {} {} {}".format(*colour) for colour in listed]
    remark = f"coloured class maps, {len(listed)} colours: [classes] names can say what they are"
    return {"names": names, "colours": listed}, [remark]


def _spans(values: Sequence[int]) -> str:
    """``0 to 11``, or the numbers where there are gaps."""
    if list(values) == list(range(values[0], values[-1] + 1)):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values[:12])) + (" …" if len(values) > 12 else "")
