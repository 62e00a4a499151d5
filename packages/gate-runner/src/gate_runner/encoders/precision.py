"""Numbers of 16 bits where an encoder gives the same with them, and how long it takes for one picture."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any, Literal

import torch

if TYPE_CHECKING:
    from gate_data.data import Data
    from gate_runner.encoders.encoder import Encoder
    from gate_runner.settings import Settings

AGREEMENT = 2e-2
"""Differences of features in bfloat16 from those in float32, as a share of their root mean square, that are taken."""
_PICTURES = 32


def chosen_precision(encoder: Encoder, settings: Settings, data: Data[Any]) -> Literal["float32", "bfloat16"]:
    """In what an encoder that stays frozen computes its features.

    ``"auto"`` is bfloat16 on a GPU that has it, where the first pictures give the same to `AGREEMENT`.
    """
    if settings.tune != "frozen" or encoder.detector is not None or settings.precision == "float32":
        return "float32"
    if settings.precision == "bfloat16":
        return "bfloat16"
    if encoder.device.type != "cuda" or not torch.cuda.is_bf16_supported():
        return "float32"
    split = next((part for part in (data.train, data.validation, data.test) if len(part)), data.test)
    images = split.images[: min(_PICTURES, len(split))]
    flat = images.reshape(-1, *images.shape[-3:])[:_PICTURES]
    return "bfloat16" if agrees(encoder, flat) else "float32"


def agrees(encoder: Encoder, images: torch.Tensor) -> bool:
    """Whether an encoder's features of some pictures in bfloat16 are those in float32, to `AGREEMENT`.

    Example:
        >>> from gate_runner.encoders import load_encoder
        >>> agrees(load_encoder("micro-clip/random"), torch.zeros(2, 3, 64, 64, dtype=torch.uint8))
        True
    """
    found = {}
    for encoder.precision in ("float32", "bfloat16"):
        found[encoder.precision] = encoder.encode_image(images)
    encoder.precision = "float32"
    whole, half = found["float32"], found["bfloat16"]
    size = whole.square().mean().sqrt()
    return bool(torch.isfinite(half).all()) and float((half - whole).square().mean().sqrt()) <= AGREEMENT * float(size)


def latency(encoder: Encoder, repeats: int = 3) -> float:
    """Median seconds for a batch of one picture that is in memory already."""
    image = torch.zeros(1, 3, encoder.image_size, encoder.image_size, dtype=torch.uint8)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        encoder.encode_image(image).cpu()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
