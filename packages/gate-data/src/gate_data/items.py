"""What an item of a split holds: PIL images, squares, or torchvision's tensors, whose boxes and maps move with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image

from gate_data.boxes.objects import Objects
from gate_data.imports import extra
from gate_data.maps import Maps
from gate_data.pictures import Pictures
from gate_data.readers.maps import ClassMap

if TYPE_CHECKING:
    from gate_data.data import Split

Picture = Image.Image | tuple[Image.Image, ...]
"""A still, or the frames of a clip, or the images of a pair."""


def as_pictures(images: torch.Tensor | Pictures, position: int) -> Picture:
    """One sample of a split as PIL images, of the size that their files have."""
    if isinstance(images, Pictures):
        frames = images.decoded(position)
        return tuple(frames) if images.video or len(frames) > 1 else frames[0]
    pixels = images[position]
    if pixels.ndim == 3:
        return Image.fromarray(np.ascontiguousarray(pixels.permute(1, 2, 0).numpy()))
    return tuple(Image.fromarray(np.ascontiguousarray(frame.permute(1, 2, 0).numpy())) for frame in pixels)


def transformed(image: Any, transform: Callable[[Any], Any]) -> Any:
    """An image through a transform; of several, each, whose tensors are stacked."""
    if not isinstance(image, tuple):
        return transform(image)
    frames = [transform(frame) for frame in image]
    return torch.stack(frames) if all(isinstance(frame, torch.Tensor) for frame in frames) else tuple(frames)


def as_tv_tensors(image: Any, target: Any, split: Split[Any], position: int) -> tuple[Any, Any]:
    """An image and its target as torchvision's v2 transforms move them together.

    Raises:
        MissingExtraError: torchvision is not installed.
    """
    tv_tensors = extra("torchvision", "torchvision.tv_tensors", "boxes and maps that transforms move need torchvision")
    first = image[0] if isinstance(image, tuple) else image
    wide, high = first.size if isinstance(first, Image.Image) else (int(first.shape[-1]), int(first.shape[-2]))
    if isinstance(split.targets, Objects):
        rows, size = split.targets.rows[position], split.targets.sizes[position]
        real = ~rows["crowd"]
        corners = rows["box"][real].reshape(-1, 4).copy()
        corners[:, 2:] += corners[:, :2]
        corners *= np.array([wide, high, wide, high]) / np.array([size[0], size[1], size[0], size[1]])
        boxes = torch.from_numpy(corners.astype(np.float32))
        target = {
            "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(high, wide)),
            "labels": torch.from_numpy(rows["label"][real].astype(np.int64)),
        }
    elif isinstance(split.targets, Maps):
        target = tv_tensors.Mask(_map_of(split.targets, position, target, (high, wide)))
    if isinstance(image, torch.Tensor):
        image = tv_tensors.Image(image) if image.ndim == 3 else tv_tensors.Video(image)
    return image, target


def _map_of(maps: Maps, position: int, shown: torch.Tensor, sides: tuple[int, int]) -> torch.Tensor:
    """A map of an image's sides: class maps as their file holds them, then by the nearest pixel."""
    reader = getattr(maps.read, "__self__", None)
    if isinstance(reader, ClassMap):
        shown = torch.from_numpy(maps.map_of(position, whole=True))
    if tuple(shown.shape) == sides:
        return shown
    picked = [
        ((torch.arange(side, dtype=torch.float64) + 0.5) * length / side).long()
        for side, length in zip(sides, shown.shape, strict=True)
    ]
    return shown[picked[0]][:, picked[1]]
