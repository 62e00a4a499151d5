"""Two small images and two words through a new encoder, before anything is trained on what it gives."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gate_runner.encoders.encoder import Encoder
from gate_runner.encoders.outputs import kept
from gate_runner.errors import EncoderError


def probe(encoder: Encoder) -> dict[str, Any]:
    """Check the shape and the values of all that an encoder offers.

    Args:
        encoder: the encoder, already on its device.

    Returns:
        The kind of device, and values of each output; see `gate_runner.encoders.outputs`. Nothing of a detector, which
        gives no features.

    Raises:
        EncoderError: with the shape that came and the one that was expected, or where NaN or infinity stands.
    """
    if encoder.detector is not None:
        return {}
    generator = torch.Generator().manual_seed(0)
    size = encoder.image_size
    images = torch.randint(0, 256, (2, 3, size, size), generator=generator, dtype=torch.uint8)
    images[1] = torch.linspace(0, 255, size).to(torch.uint8)  # noise looks like nothing: the other is smooth
    pooled = encoder.encode_image(images)
    patches = encoder.encode_patches(images) if encoder.patches is not None else None
    text = encoder.encode_text(["one", "two words"]) if encoder.text is not None else None
    words = encoder.encode_text_tokens(["one", "two words"]) if encoder.text_tokens is not None else None
    before = encoder.encode_backbone(images) if encoder.backbone is not None else None
    _check(encoder, "encode_image", pooled, ("2", "d"))
    if patches is not None:
        rows, columns = patches.grid
        _check(encoder, "encode_patches", patches.tokens, ("2", str(rows * columns), "d"))
    if text is not None:
        _check(encoder, "encode_text", text, ("2", str(pooled.shape[1])))
    if words is not None:
        _check(encoder, "encode_text_tokens", words.tokens, ("2", str(words.mask.shape[-1]), "e"))
    if before is not None:
        _check(encoder, "encode_backbone", before, ("2", "b"))
    outputs = {
        "image": pooled,
        "backbone": before,
        "patches": None if patches is None else patches.tokens,
        "text": text,
        "text_tokens": None if words is None else words.tokens * words.mask.unsqueeze(-1),
    }
    given = {name: kept(found) for name, found in outputs.items() if found is not None}
    return {"device": encoder.device.type, **given}


def _check(encoder: Encoder, what: str, found: Tensor, expected: tuple[str, ...]) -> None:
    fits = found.ndim == len(expected) and all(
        not want.isdecimal() or have == int(want) for have, want in zip(found.shape, expected, strict=True)
    )
    if not fits:
        raise EncoderError(
            f"encoder {encoder.spec!r}: {what} of two inputs gave shape {tuple(found.shape)}, "
            f"expected ({', '.join(expected)})"
        )
    if not bool(torch.isfinite(found).all()):
        bad = int((~torch.isfinite(found)).sum())
        raise EncoderError(
            f"encoder {encoder.spec!r}: {what} gave NaN or infinity in {bad} of {found.numel()} values, "
            f"shape {tuple(found.shape)}"
        )
