"""Tested units as small images: what reports show of the hardest samples."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int, UInt8
from PIL import Image, ImageDraw
from torch import Tensor

from gate_data.boxes.objects import Objects
from gate_data.data import Data
from gate_runner.tasks import predicted
from gate_runner.tasks.task import Drawing

_PIXELS, _BOXES_SIDE = 96, 192
_HUE = 0.618034
"""Share of the circle between the hues of two classes in order, the golden ratio's: the first ones are far apart."""
_LOOKS = ((0.85, 0.95), (0.55, 0.6), (0.35, 1.0), (0.95, 0.7))
"""Saturations and values of classes in turn."""
_UNCOUNTED = "counts nowhere"


def sample(data: Data[Tensor], training: Mapping[str, Any], index: int) -> Drawing:
    """An image, the frames of a clip, or an image beside its class map; of a group, the sample in its middle."""
    test = data.test
    if test.groups is not None:
        members = np.flatnonzero(test.groups.numpy() == np.unique(test.groups.numpy())[index])
        index = int(members[len(members) // 2])
    image, target = test.images[index], test.targets[index]
    if target.ndim == 2:
        mask, key = map_colours(target.numpy(), data.classes)
        picture = pixels_of(image, min(_PIXELS, image.shape[-1]))
        classes = _resized(mask, picture.shape[:2], Image.Resampling.NEAREST)
        return Drawing(np.concatenate([picture, classes], axis=1), "image and truth", key)
    answer = f"{float(target):g}" if target.is_floating_point() or not data.classes else data.classes[int(target)]
    return Drawing(shown(image), f"{test.texts[index]} True: {answer}" if test.texts else f"true: {answer}")


def _palette() -> UInt8[np.ndarray, "257 3"]:
    """Return a colour for each class: dark for the first, often the background; the last is white, for no class."""
    ordered = [(number * _HUE % 1.0, *_LOOKS[number % len(_LOOKS)]) for number in range(257)]
    colours: np.ndarray = np.rint(255 * np.array([colorsys.hsv_to_rgb(*each) for each in ordered])).astype(np.uint8)
    colours[0], colours[-1] = 40, 255
    return colours


_PALETTE = _palette()


def map_colours(
    labels: Int[np.ndarray, "h w"], classes: Sequence[str]
) -> tuple[UInt8[np.ndarray, "h w 3"], dict[str, tuple[int, int, int]]]:
    """Return a map's colours, and the colour of each class in it by name; places that count nowhere are white."""
    known = (labels >= 0) & (labels < len(classes))
    numbers = np.where(known, labels.astype(np.int64) % 256, 256)
    key = {}
    for label in np.unique(np.where(known, labels, -1)).tolist():
        red, green, blue = _PALETTE[256 if label < 0 else label % 256].tolist()
        key[_UNCOUNTED if label < 0 else classes[label]] = (red, green, blue)
    pixels: np.ndarray = _PALETTE[numbers]
    return pixels, key


def pair(data: Data[Tensor], training: Mapping[str, Any], index: int) -> Drawing:
    """Two images and their two captions."""
    texts = data.test.texts or ()
    return Drawing(shown(data.test.images[index]), f"“{texts[2 * index]}” and “{texts[2 * index + 1]}”")


def labels(data: Data[Tensor], training: Mapping[str, Any], index: int) -> Drawing:
    """An image and the labels that it has."""
    present = [name for name, value in zip(data.classes, data.test.targets[index], strict=True) if bool(value)]
    return Drawing(shown(data.test.images[index]), f"true: {', '.join(present) or 'none'}")


def heads(data: Data[Tensor], training: Mapping[str, Any], index: int) -> Drawing:
    """An image and the class that each head should give."""
    words = predicted.heads(data, data.test.targets[index].numpy(), index)
    return Drawing(shown(data.test.images[index]), f"true: {words}")


def captions(data: Data[Tensor], training: Mapping[str, Any], index: int) -> Drawing:
    """An image and its caption: the right one, or the first."""
    texts = data.test.texts or ()
    per_image = len(texts) // len(data.test)
    right = int(data.test.targets[index]) if data.classes else 0
    return Drawing(shown(data.test.images[index]), f"true: {texts[per_image * index + right]}")


def depth(data: Data[Tensor], training: Mapping[str, Any], index: int) -> Drawing:
    """An image beside its depths, the nearest bright; black where nothing was measured."""
    picture, metres = shown(data.test.images[index]), data.test.targets[index].numpy()
    rows, columns = (np.arange(shown) * had // shown for shown, had in zip(picture.shape, metres.shape, strict=False))
    small = metres[rows][:, columns]
    near = np.where(small > 0, 255 * (1 - small / max(float(small.max()), 1e-6)) * 0.9 + 20, 0).astype(np.uint8)
    return Drawing(np.concatenate([picture, np.repeat(near[..., None], 3, axis=2)], axis=1), "image and depth")


def boxes(data: Data[Objects], training: Mapping[str, Any], index: int) -> Drawing:
    """An image twice: with its objects, and with the detections that the result kept of it."""
    truth = data.test.targets
    wide, high = (int(side) for side in truth.sizes[index])
    scale = _BOXES_SIDE / max(wide, high)
    size = (max(1, round(wide * scale)), max(1, round(high * scale)))
    pixels = np.ascontiguousarray(data.test.images[index].permute(1, 2, 0).numpy())
    picture = Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)
    mine = truth.take(np.array([index])).rows
    objects = [(box, int(label), None) for box, label in zip(mine.columns["box"], mine.columns["label"], strict=True)]
    rows = training.get("drawn", {}).get(str(index))
    detected = [(row[:4], int(row[4]), float(row[5])) for row in rows or ()]
    sides = [_framed(picture, objects, data.classes, scale), _framed(picture, detected, data.classes, scale)]
    named = ", ".join(sorted({data.classes[label] for _, label, _ in objects})) or "nothing"
    caption = "truth, and what was found" if rows is not None else "truth; of this image no detections were kept"
    return Drawing(np.concatenate([np.asarray(side) for side in sides], axis=1), f"{caption}: {named}")


def shown(image: UInt8[Tensor, "*frames 3 s s"]) -> UInt8[np.ndarray, "h w 3"]:
    """An image, or up to eight frames side by side in one or two lines, not larger than reports need."""
    if image.ndim == 3:
        return pixels_of(image, min(_PIXELS, max(32, image.shape[-1])))
    frames = [pixels_of(frame, 48) for frame in image[:8]]
    half = (len(frames) + 1) // 2 if len(frames) > 3 else len(frames)
    lines = [frames[:half], frames[half:]] if len(frames) % 2 == 0 and len(frames) > 3 else [frames]
    return np.concatenate([np.concatenate(line, axis=1) for line in lines if line], axis=0)


def pixels_of(image: UInt8[Tensor, "3 h w"], width: int) -> UInt8[np.ndarray, "h w 3"]:
    """An image as an array with its channels last, scaled to a width."""
    shape = max(1, round(width * image.shape[1] / image.shape[2])), width
    return _resized(image.permute(1, 2, 0).numpy(), shape, Image.Resampling.BICUBIC)


def _resized(pixels: np.ndarray, shape: tuple[int, ...], how: Image.Resampling) -> np.ndarray:
    high, wide = shape
    return pixels if pixels.shape[:2] == shape else np.asarray(Image.fromarray(pixels).resize((wide, high), how))


def _framed(
    picture: Image.Image, objects: Sequence[tuple[Any, int, float | None]], classes: Sequence[str], scale: float
) -> Image.Image:
    shown = picture.convert("RGB")
    pen = ImageDraw.Draw(shown)
    written: list[tuple[float, float, float, float]] = []
    for (x, top, wide, high), label, score in objects:  # the best first: of labels in one place it is read
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
