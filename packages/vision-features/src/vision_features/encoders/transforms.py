"""A model's own way from an image to its pixels, as the library that the model comes from has it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from gate_data.request import Size, height_width

_LOG = logging.getLogger(__name__)
_SHAPES = ((61, 47), (47, 61), (500, 300))
"""Width and height of the images that a transform is tried on: all must come out in the model's size."""


@dataclass(frozen=True)
class OwnTransform:
    """A library's steps up to eight-bit pixels; what is left, to floats and normalised, is `Encoder.prepare`'s."""

    description: str
    function: Callable[[Image.Image], Any]

    def __call__(self, image: Image.Image) -> UInt8[np.ndarray, "3 h w"]:
        """An image in RGB as the model takes it."""
        return np.ascontiguousarray(np.asarray(self.function(image), dtype=np.uint8).transpose(2, 0, 1))


def of_steps(composed: Any, size: Size) -> OwnTransform | None:
    """Of torchvision's ``Compose``, the steps before the one that makes a tensor; None where they give another size."""
    steps: list[Any] = list(composed.transforms)
    names = [getattr(step, "__name__", type(step).__name__) for step in steps]
    tensor = next((at for at, name in enumerate(names) if "ToTensor" in name or "PILToTensor" in name), None)
    if tensor is None or any(name != "Normalize" for name in names[tensor + 1 :]):
        _refused(f"its steps are {', '.join(names)}")
        return None
    before = steps[:tensor]

    def function(image: Image.Image) -> Any:
        for step in before:
            image = step(image)
        return image

    descriptions = [str(step) for step, name in zip(before, names, strict=False) if "convert_to_rgb" not in name]
    return _tried(OwnTransform(" > ".join(descriptions), function), size)


def of_processor(processor: Any, size: Size) -> OwnTransform | None:
    """Of an image processor of transformers, all but its scaling to floats and normalisation."""
    fields = ("do_resize", "size", "resample", "do_center_crop", "crop_size", "crop_pct", "do_pad")
    held = {name: getattr(processor, name, None) for name in fields}
    factor = getattr(processor, "rescale_factor", 1 / 255)
    if not getattr(processor, "do_rescale", True) or abs(factor * 255 - 1) > 1e-6:
        _refused(f"{type(processor).__name__} scales pixels by {factor}")
        return None

    def function(image: Image.Image) -> Any:
        pixels = processor(images=image, do_rescale=False, do_normalize=False, return_tensors="np")["pixel_values"][0]
        return np.rint(np.asarray(pixels)).clip(0, 255).transpose(1, 2, 0)

    settings = ", ".join(f"{name}={value}" for name, value in held.items() if value is not None)
    return _tried(OwnTransform(f"{type(processor).__name__}({settings})", function), size)


def _tried(transform: OwnTransform, size: Size) -> OwnTransform | None:
    try:
        shapes: Sequence[Any] = [transform(Image.new("RGB", shape, (9, 99, 199))).shape for shape in _SHAPES]
    except Exception as error:  # noqa: BLE001 - another library's code
        _refused(f"{type(error).__name__}: {' '.join(str(error).split()):.80}")
        return None
    high, wide = height_width(size)
    wrong = [shape for shape in shapes if shape != (3, high, wide)]
    if wrong:
        _refused(f"it makes {wrong[0][2]} x {wrong[0][1]} pixels, not {wide} x {high}")
        return None
    return transform


def _refused(why: str) -> None:
    _LOG.warning("the model's own transform is not used, images are scaled and cut in the middle: %s", why)
