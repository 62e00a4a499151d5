"""Images and class maps at the size that they have in their files, for scores that are of every pixel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gate_data.data import Split
from gate_data.maps import Maps
from gate_data.pictures import Pictures
from gate_data.readers.source import described
from gate_runner.errors import DataError

if TYPE_CHECKING:
    from jaxtyping import Int, UInt8


def image_at(split: Split[Any], index: int) -> UInt8[Tensor, "3 h w"]:
    """Return an image as its file has it, in RGB and upright; of images in memory, as they are."""
    images = split.images
    if isinstance(images, Pictures):
        return torch.from_numpy(np.array(images.decoded(index)[0])).permute(2, 0, 1)
    image: Tensor = images[index]
    return image


def truth_at(split: Split[Any], index: int) -> Int[Tensor, "h w"]:
    """Return a class map as its file has it."""
    targets = split.targets
    if isinstance(targets, Maps):
        return torch.from_numpy(targets.map_of(index, whole=True).copy())
    target: Tensor = targets[index]
    return target


def checked(split: Split[Any], index: int, image: Tensor, truth: Tensor) -> None:
    """See that a class map has the size of its image.

    Raises:
        DataError: it has another size; the message shows both, and the file.
    """
    if truth.shape == image.shape[-2:]:
        return
    where = described(split.targets.files[index]) if isinstance(split.targets, Maps) else f"class map {index}"
    raise DataError(
        f"{where} has {truth.shape[0]} x {truth.shape[1]} pixels, its image {image.shape[-2]} x {image.shape[-1]}: "
        "expected the same size"
    )


def images_of(split: Split[Any], numbers: Sequence[int]) -> Iterator[UInt8[Tensor, "3 h w"]]:
    """Yield images one after another, each read when it is asked for."""
    for index in numbers:
        yield image_at(split, index)
