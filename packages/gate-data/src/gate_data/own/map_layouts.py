"""Pictures beside class maps as people download them: which folder holds which, and what classes the maps show."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gate_data.errors import DataError
from gate_data.own.annotated import first_pictures
from gate_data.own.class_names import listed_names
from gate_data.own.columns import scored, splits_in
from gate_data.own.spec import Guess
from gate_data.readers.decode import open_picture
from gate_data.readers.folders import PICTURES, SPLIT_WORDS
from gate_data.readers.splits import spread

_PICTURES = ("images", "imgs", "img", "image", "jpegimages", "photos", "pictures", "inputs", "input", "img_dir", "data")
_MAPS = (
    "masks", "mask", "labels", "label", "annotations", "annotation", "annots", "ann_dir", "segmentation",
    "segmentationclass", "segmentations", "gt", "ground_truth", "groundtruth", "targets",
)  # fmt: skip
_AFTER_SPLIT = ("annot", "_labels", "_masks", "_mask", "_annot", "_annotations", "labels", "masks", "_gt")
_MAPS_READ = 60
"""Class maps that are read to see which values there are."""
_INDEX = 64
"""A value of a class map that is larger than their number by this is no index."""


def maps_layout(folder: Path, inner: Sequence[Path], about: dict[str, Any]) -> Guess | None:
    """Pictures and class maps of their names, in folders that are called so."""
    by_name = {entry.name.casefold(): entry.name for entry in inner}
    pictures = next((by_name[name] for name in _PICTURES if name in by_name), "")
    maps = next((by_name[name] for name in _MAPS if name in by_name and by_name[name] != pictures), "")
    layout: tuple[str, str, dict[str, str]] | None = None
    if pictures and maps:
        splits = splits_in(sorted(entry.name for entry in (folder / pictures).iterdir() if entry.is_dir()))
        layout = pictures, f"{maps}/{{}}/" if splits else f"{maps}/", splits
    else:
        splits = splits_in([entry.name for entry in inner if entry.name.casefold() in SPLIT_WORDS])
        after = next((end for end in _AFTER_SPLIT if splits and f"{splits.get('train')}{end}" in by_name.values()), "")
        if after:
            layout = ".", f"{{}}{after}/", splits
        elif splits and (train := folder / splits.get("train", "")).is_dir():
            within = {entry.name.casefold(): entry.name for entry in train.iterdir() if entry.is_dir()}
            pictures = next((within[name] for name in _PICTURES if name in within), "")
            maps = next((within[name] for name in _MAPS if name in within and within[name] != pictures), "")
            if pictures and maps:
                splits = {split: f"{name}/{pictures}" for split, name in splits.items()}
                layout = ".", f"{{}}/../{maps}/", splits
    if layout is None:
        return None
    root, pattern_start, splits = layout
    first = first_pictures(folder / root / splits["train"] if "train" in splits else folder / root, 1)
    near = folder / pattern_start.replace("{}", splits.get("train", ""))
    if not first or not near.is_dir() or ("train" not in splits and splits):
        return None
    stem = first[0].stem
    ends = [entry for entry in near.iterdir() if entry.name.startswith(stem) and entry.suffix.lower() in PICTURES]
    if not ends:
        return None
    end = min(ends, key=lambda entry: len(entry.name)).name[len(stem) :]
    chosen, remarks = scored(splits)
    pattern = f"{pattern_start}*{end}"
    classes, remarks_on_classes = _classes_of_maps(folder, near, end)
    data = {"kind": "maps", "root": root, "annotations": pattern, **classes.pop("data", {})}
    parts_shown = list(dict.fromkeys(splits.values())) or [""]
    maps_shown = ", ".join(os.path.normpath(pattern.replace("{}", name)) for name in parts_shown)
    pictures_shown = ", ".join(os.path.normpath(f"{root}/{name}") for name in parts_shown)
    how = f"{maps_shown}: a class map for each picture of {pictures_shown}"
    return Guess.of(about, "segmentation", data, chosen, [how, *remarks, *remarks_on_classes], classes)


def _classes_of_maps(folder: Path, maps: Path, end: str) -> tuple[dict[str, Any], list[str]]:
    """Fields of the classes, by the values that some of the maps have."""
    files = sorted(map_file for map_file in maps.iterdir() if map_file.name.endswith(end))
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
    indices = sorted(values - {255})
    if values == {0, 255} or values == {0, 1}:
        names = ["background", "foreground"]
        data: dict[str, Any] = {"data": {"ignored": []}} if 255 in values else {}
        return {"names": names, **({"values": [0, 255]} if 255 in values else {}), **data}, [
            "two values: background, foreground"
        ]
    if not indices or indices[-1] > len(indices) + _INDEX:
        listed = ", ".join(map(str, sorted(values)[:12]))
        raise DataError(f"{maps}: the values of the class maps ({listed} …) are no numbers of classes")
    lines = listed_names(folder)
    remarks = [
        f"class maps have the values {_spans(indices)}" + (", and 255, which counts nowhere" if 255 in values else "")
    ]
    if len(lines) > indices[-1]:
        return {"names": list(lines)}, remarks
    remarks.append("names of the values are not there (classes.txt): [classes] names can say them")
    return {"names": [f"class {value}" for value in indices], "values": indices}, remarks


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
            "colours": [list(colour) for colour in listed],
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
