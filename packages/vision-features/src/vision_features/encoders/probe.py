"""The first images and words through an encoder: whether what it gives can be used, at 16 bits too, and how fast."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from vision_features.encoders.encoder import Encoder
from vision_features.encoders.spec import kept
from vision_features.errors import EncoderError

if TYPE_CHECKING:
    from gate_data.data import Data


TEXTS = ("one", "two words")
"""Texts that every text side has to take."""
ODD_TEXTS = {
    "plain": "a small image of a red square beside a blue circle under a green triangle in front of a dark wall",
    "capitals": "A Photo of the EIFFEL Tower in Paris",
    "marks": 'it\'s (3.14), 2,718 & 50% off; "quoted" - and/or #7!',
    "digits": "12 34567 0089 2024",
    "accents": "na\u00efve caf\u00e9, \u00dcbergr\u00f6\u00dfe, \u041c\u043e\u0441\u043a\u0432\u0430, \u6771\u4eac",
    "long": " ".join(f"word {number}" for number in range(400)),
    "empty": "",
}
"""Texts by which text sides are known again; one may refuse them, or give no number."""


def probe(encoder: Encoder) -> dict[str, Any]:
    """Check the shape and the values of all that an encoder offers, and keep by what it is known again.

    That is every kind of feature that can be asked for: an encoder whose code gives another one is another encoder.
    """
    if encoder.detector is not None:
        return {}
    precision, encoder.precision = encoder.precision, "float32"
    try:
        outputs = _outputs(encoder)
    finally:
        encoder.precision = precision
    return {"device": encoder.device.type, **outputs}


def _outputs(encoder: Encoder) -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (2, *encoder.shape), generator=generator, dtype=torch.uint8)
    images[1] = torch.linspace(0, 255, images.shape[-1]).to(torch.uint8)  # noise is like nothing: one is smooth
    outputs = {"image": _checked(encoder, "image", encoder.encode_image(images), "2", "d")}
    if encoder.backbone is not None:
        outputs["backbone"] = _checked(encoder, "backbone", encoder.encode_backbone(images), "2", "b")
    if encoder.patches is not None:
        patches = encoder.encode_patches(images)
        places = str(math.prod(patches.grid))
        outputs["patches"] = _checked(encoder, "patches", patches.tokens, "2", places, "d")
    sums = {name: kept(output) for name, output in outputs.items()}
    sums |= _blocks(encoder, images)
    for name, encode in (("text", encoder.text), ("text_tokens", encoder.text_tokens)):
        if encode is not None:
            sums |= _texts(encoder, name, outputs["image"].shape[1])
    return sums


def _blocks(encoder: Encoder, images: Tensor) -> dict[str, list[float]]:
    """What every block gives; nothing where the encoder shows none, or says so when they are asked for."""
    try:
        given = encoder.encode_blocks(images)
    except EncoderError:  # which whoever asks for a read-out is told
        return {}
    encoder.remember_readouts(given)
    sums = {"blocks": kept(given.pooled)}
    if given.backbone is not None:
        sums["blocks:before"] = kept(given.backbone)
    for number, block in enumerate(given.blocks, start=1):
        parts = [block.places.flatten(1)] if block.cls is None else [block.cls, block.places.flatten(1)]
        sums[f"block:{number}"] = kept(torch.cat([part.float() for part in parts], dim=1))
    return sums


def _texts(encoder: Encoder, name: str, width: int) -> dict[str, list[float]]:
    """What a text side gives of texts of every kind; an empty list of those that it refuses or has no numbers for."""

    def encode(texts: Sequence[str]) -> Tensor:
        if name == "text":
            return _checked(encoder, name, encoder.encode_text(texts), str(len(texts)), str(width))
        words = encoder.encode_text_tokens(texts)
        mask = words.mask.unsqueeze(-1)
        tokens = _checked(encoder, name, words.tokens, str(len(texts)), str(words.mask.shape[-1]), "e")
        return torch.cat([tokens * mask, mask.to(tokens)], dim=2)

    sums = {name: kept(encode(TEXTS))}
    try:
        rows = list(encode(list(ODD_TEXTS.values())))
    except EncoderError:  # of one of them
        rows = []
        for text in ODD_TEXTS.values():
            try:
                rows += encode([text])
            except EncoderError:
                rows.append(torch.empty(0))
    return sums | {f"{name}:{kind}": kept(row) for kind, row in zip(ODD_TEXTS, rows, strict=True)}


def _checked(encoder: Encoder, kind: str, output: Tensor, *expected: str) -> Tensor:
    name = f"encode_{kind}"
    fits = output.ndim == len(expected) and all(
        not want.isdecimal() or have == int(want) for have, want in zip(output.shape, expected, strict=True)
    )
    if not fits:
        count = {"1": "one input", "2": "two inputs"}.get(expected[0], f"{expected[0]} inputs")
        raise EncoderError(
            f"encoder {encoder.spec!r}: {name} of {count} gave shape {tuple(output.shape)}, "
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


def chosen_precision(encoder: Encoder, precision: str, data: Data[Any]) -> Literal["float32", "bfloat16"]:
    """In what an encoder that stays frozen computes its features: ``float32``, ``bfloat16`` or ``auto``.

    ``"auto"`` is bfloat16 on a GPU that has it, where the first pictures give the same to `AGREEMENT`.
    """
    if encoder.detector is not None or precision == "float32":
        return "float32"
    if precision == "bfloat16":
        return "bfloat16"
    if encoder.device.type != "cuda" or not torch.cuda.is_bf16_supported():
        return "float32"
    split = next((part for part in (data.train, data.validation, data.test) if len(part)), data.test)
    images = split.images[: min(_PICTURES, len(split))]
    flat = images.reshape(-1, *images.shape[-3:])[:_PICTURES]
    return "bfloat16" if agrees(encoder, flat) else "float32"


def agrees(encoder: Encoder, images: torch.Tensor) -> bool:
    """Whether an encoder's features of some images in bfloat16 are those in float32, to `AGREEMENT`."""
    features = {}
    for encoder.precision in ("float32", "bfloat16"):
        features[encoder.precision] = encoder.encode_image(images)
    encoder.precision = "float32"
    full, half = features["float32"], features["bfloat16"]
    size = full.square().mean().sqrt()
    return bool(torch.isfinite(half).all()) and float((half - full).square().mean().sqrt()) <= AGREEMENT * float(size)


def rate(encoder: Encoder, batch: int, seconds: float = 0.2) -> float:
    """Images a second, by the median of as many calls as fit into the time, at least three, after one unmeasured."""
    noise = torch.randint(0, 256, (batch, *encoder.shape), generator=torch.Generator(), dtype=torch.uint8)
    times: list[float] = []
    encoder.encode_image(noise).cpu()
    begun = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begun < seconds:
        start = time.perf_counter()
        encoder.encode_image(noise).cpu()
        times.append(time.perf_counter() - start)
    return batch / statistics.median(times)
