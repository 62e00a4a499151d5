"""The first pictures and words through an encoder: whether what it gives can be used, at 16 bits too, and how fast."""

from __future__ import annotations

import math
import statistics
import time
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from gate_runner.encoders.encoder import Encoder
from gate_runner.encoders.spec import kept
from gate_runner.errors import EncoderError

if TYPE_CHECKING:
    from gate_data.data import Data
    from gate_runner.settings import Settings


def probe(encoder: Encoder) -> dict[str, Any]:
    """Check the shape and the values of all that an encoder offers."""
    if encoder.detector is not None:
        return {}
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (2, *encoder.shape), generator=generator, dtype=torch.uint8)
    images[1] = torch.linspace(0, 255, images.shape[-1]).to(torch.uint8)  # noise is like nothing: one is smooth
    texts = ["one", "two words"]
    outputs = {"image": _checked(encoder, "image", encoder.encode_image(images), "2", "d")}
    if encoder.backbone is not None:
        outputs["backbone"] = _checked(encoder, "backbone", encoder.encode_backbone(images), "2", "b")
    if encoder.patches is not None:
        patches = encoder.encode_patches(images)
        places = str(math.prod(patches.grid))
        outputs["patches"] = _checked(encoder, "patches", patches.tokens, "2", places, "d")
    if encoder.text is not None:
        width = str(outputs["image"].shape[1])
        outputs["text"] = _checked(encoder, "text", encoder.encode_text(texts), "2", width)
    if encoder.text_tokens is not None:
        words = encoder.encode_text_tokens(texts)
        tokens = _checked(encoder, "text_tokens", words.tokens, "2", str(words.mask.shape[-1]), "e")
        outputs["text_tokens"] = tokens * words.mask.unsqueeze(-1)
    return {"device": encoder.device.type, **{name: kept(output) for name, output in outputs.items()}}


def _checked(encoder: Encoder, kind: str, output: Tensor, *expected: str) -> Tensor:
    name = f"encode_{kind}"
    fits = output.ndim == len(expected) and all(
        not want.isdecimal() or have == int(want) for have, want in zip(output.shape, expected, strict=True)
    )
    if not fits:
        raise EncoderError(
            f"encoder {encoder.spec!r}: {name} of two inputs gave shape {tuple(output.shape)}, "
            f"expected ({', '.join(expected)})"
        )
    if not bool(torch.isfinite(output).all()):
        bad = int((~torch.isfinite(output)).sum())
        raise EncoderError(
            f"encoder {encoder.spec!r}: {name} gave NaN or infinity in {bad} of {output.numel()} values, "
            f"shape {tuple(output.shape)}"
        )
    return output


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
    """Whether an encoder's features of some pictures in bfloat16 are those in float32, to `AGREEMENT`."""
    features = {}
    for encoder.precision in ("float32", "bfloat16"):
        features[encoder.precision] = encoder.encode_image(images)
    encoder.precision = "float32"
    full, half = features["float32"], features["bfloat16"]
    size = full.square().mean().sqrt()
    return bool(torch.isfinite(half).all()) and float((half - full).square().mean().sqrt()) <= AGREEMENT * float(size)


def rate(encoder: Encoder, batch: int, seconds: float = 0.2) -> float:
    """Pictures a second, by the median of as many calls as fit into the time, at least three, after one unmeasured."""
    noise = torch.randint(0, 256, (batch, *encoder.shape), generator=torch.Generator(), dtype=torch.uint8)
    times: list[float] = []
    encoder.encode_image(noise).cpu()
    begun = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begun < seconds:
        start = time.perf_counter()
        encoder.encode_image(noise).cpu()
        times.append(time.perf_counter() - start)
    return batch / statistics.median(times)
