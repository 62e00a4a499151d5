"""What reports show of zero-shot segmentation: image, truth and answer, the classes, what stands beside, the curve."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from gate_data.data import Data
from gate_runner.tasks.drawing import map_colours
from gate_runner.tasks.segmenting.native import image_at, truth_at
from gate_runner.tasks.task import Details, Drawing

_SIDE = 160
_NOTED = 8


def draw(data: Data[Tensor], training: Mapping[str, Any], index: int) -> Drawing:
    """An image, its truth, and the answer where the result kept it: of the ten best and the ten worst."""
    image = image_at(data.test, index).permute(1, 2, 0).numpy()
    high, wide = image.shape[:2]
    factor = min(1.0, _SIDE / max(high, wide))
    size = (max(1, round(wide * factor)), max(1, round(high * factor)))
    shown = [np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BICUBIC))]
    maps = [truth_at(data.test, index).numpy()]
    stored = training.get("drawn", {}).get(str(index))
    if stored is not None:
        with Image.open(io.BytesIO(base64.b64decode(stored)), formats=("PNG",)) as answer:
            maps.append(np.asarray(answer))
    key: dict[str, tuple[int, int, int]] = {}
    for labels in maps:
        colours, names = map_colours(labels, data.classes)
        key |= names
        shown.append(np.asarray(Image.fromarray(colours).resize(size, Image.Resampling.NEAREST)))
    caption = "image, truth and answer" if stored is not None else "image and truth"
    shown_classes = [data.classes[int(label)] for label in np.unique(maps[0]) if 0 <= label < len(data.classes)]
    more = ", …" if len(shown_classes) > _NOTED else ""
    return Drawing(np.concatenate(shown, axis=1), f"{caption}: {', '.join(shown_classes[:_NOTED])}{more}", key)


def details(training: Mapping[str, Any], encoder: str) -> Details:
    """The setting in a line, what stands beside the score, the threshold's curve, and every class."""
    heads = ["class", "IoU", "test images", "pixels"]
    rows = training.get("by_class_iou", ())
    if not rows:
        return Details([], heads, [])
    notes = [f"{training['setting']}.", f"Patch features: {training['source']}. Preset: {training['preset_source']}."]
    names = {"blind": "Best map that never looks", "whole_image": "One class for the whole image"}
    names["trained_head"] = "Linear head trained on the same patches (a ceiling)"
    for key, label in names.items():
        if row := training["beside"].get(key):
            how = f" ({row['how']})" if "how" in row else f" ({row['images']} images)" if "images" in row else ""
            notes.append(f"{label}: mIoU {_interval(row['miou'])}{how}.")
    threshold = training["threshold"]
    for split, points in (("test", threshold["curve"]), ("validation", threshold["validation"])):
        if points:
            curve = ", ".join(f"{at:g}: {value:.3f}" for at, value in points)
            notes.append(f"mIoU by threshold of the background, on {split}: {curve}.")
    if absent := training.get("absent"):
        notes.append(f"Without a test pixel, and left out of the mean: {', '.join(absent)}.")
    listed = [
        [row["class"], "–" if row["iou"] is None else _interval(row["iou"]), str(row["images"]), f"{row['pixels']:,}"]
        for row in sorted(rows, key=lambda row: (row["iou"] or [2.0])[0])
    ]
    return Details(notes, heads, listed)


def _interval(values: Any) -> str:
    return f"{values[0]:.3f} ({values[1]:.3f} to {values[2]:.3f})"
