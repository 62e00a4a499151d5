"""A tested picture twice: with its objects, and with what was found of them."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from gate_data.boxes.objects import Objects
from gate_data.data import Data
from gate_runner.tasks.task import Drawing

_SIDE = 192


def draw(data: Data[Objects], training: Mapping[str, Any], index: int) -> Drawing:
    """Ground truth on the left, on the right the detections that the result kept of this picture."""
    truth = data.test.targets
    wide, high = (int(side) for side in truth.sizes[index])
    scale = _SIDE / max(wide, high)
    size = (max(1, round(wide * scale)), max(1, round(high * scale)))
    pixels = np.ascontiguousarray(data.test.images[index].permute(1, 2, 0).numpy())
    picture = Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)
    mine = truth.take(np.array([index])).rows
    objects = [(box, int(label), None) for box, label in zip(mine.columns["box"], mine.columns["label"], strict=True)]
    rows = training.get("drawn", {}).get(str(index))
    boxes = [(row[:4], int(row[4]), float(row[5])) for row in rows or ()]
    sides = [_framed(picture, objects, data.classes, scale), _framed(picture, boxes, data.classes, scale)]
    named = ", ".join(sorted({data.classes[label] for _, label, _ in objects})) or "nothing"
    caption = "truth, and what was found" if rows is not None else "truth; of this picture no detections were kept"
    return Drawing(np.concatenate([np.asarray(side) for side in sides], axis=1), f"{caption}: {named}")


def _framed(
    picture: Image.Image, boxes: Sequence[tuple[Any, int, float | None]], classes: Sequence[str], scale: float
) -> Image.Image:
    shown = picture.convert("RGB")
    pen = ImageDraw.Draw(shown)
    written: list[tuple[float, float, float, float]] = []
    for (x, top, wide, high), label, score in boxes:  # the best first: of labels in one place it is read
        colour = _colour(label, len(classes))
        corners = (x * scale, top * scale, (x + wide) * scale - 1, (top + high) * scale - 1)
        pen.rectangle((*corners[:2], max(corners[0], corners[2]), max(corners[1], corners[3])), outline=colour, width=2)
        text = classes[label] if score is None else f"{classes[label]} {score:.2f}"
        where = (max(0.0, corners[0] + 2), max(0.0, corners[1] - 11))
        box = pen.textbbox(where, text)
        if any(box[0] < x1 and x0 < box[2] and box[1] < y1 and y0 < box[3] for x0, y0, x1, y1 in written):
            continue
        written.append(box)
        pen.rectangle(box, fill=(0, 0, 0))
        pen.text(where, text, fill=colour)
    return shown


def _colour(label: int, classes: int) -> tuple[int, int, int]:
    """Hues as far apart as they can be."""
    red, green, blue = colorsys.hsv_to_rgb(label / max(1, classes), 0.75, 1.0)
    return round(255 * red), round(255 * green), round(255 * blue)
