"""The user's own encoder: ``package.module:function``, where the function takes nothing and returns it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from vision_features.encoders.blocks import by_hooks
from vision_features.encoders.code import digest_of_classes, digest_of_module
from vision_features.encoders.encoder import CLIP_MEAN, CLIP_STD, Encoder, PatchFeatures, TextTokens
from vision_features.encoders.spec import EncoderSpec
from vision_features.errors import EncoderError
from wary_files.working_folder import made_by


def load(spec: EncoderSpec) -> Encoder:
    """Make what the spec names, and wrap it; an `Encoder` is called by the spec from now on."""
    encoder = adopt(made_by(spec.name, "encoder", error=EncoderError), spec.text)
    encoder.spec = spec.text
    encoder.code = digest_of_module(spec.name.partition(":")[0])
    return encoder


def _size_of(model: Any) -> Any:
    """The size that a model names, or its image tower, as open_clip's do."""
    return getattr(model, "image_size", getattr(getattr(model, "visual", None), "image_size", 224))


def adopt(model: Any, spec: str) -> Encoder:
    """Wrap any object as an encoder."""
    if isinstance(model, Encoder):
        return model
    encode = getattr(model, "encode_image", model if isinstance(model, nn.Module) else None)
    if encode is None:
        raise EncoderError(
            f"encoder {spec!r} is a {type(model).__name__} without encode_image; expected an object with "
            "encode_image(images) or an nn.Module"
        )
    patches = getattr(model, "encode_patches", None)
    tokens = getattr(model, "encode_text_tokens", None)

    weights = model.parameters() if isinstance(model, nn.Module) else ()

    def places(images: Tensor) -> PatchFeatures:
        tokens, grid = _two(spec, "encode_patches", patches, images, "(tokens [n, t, d], (rows, columns))")
        if not (isinstance(grid, tuple | list) and len(grid) == 2):
            raise EncoderError(f"encoder {spec!r}: encode_patches gave the grid {grid!r}; expected (rows, columns)")
        return PatchFeatures(tokens, (int(grid[0]), int(grid[1])))

    def words(texts: Sequence[str]) -> TextTokens:
        encoded, mask = _two(spec, "encode_text_tokens", tokens, texts, "(tokens [n, l, e], mask [n, l])")
        if not isinstance(mask, Tensor):
            raise EncoderError(f"encoder {spec!r}: encode_text_tokens gave a {type(mask).__name__} as its mask")
        return TextTokens(encoded, mask.bool())  # tokenizers give whole numbers

    return Encoder(
        spec=spec,
        image_size=_size_of(model),
        image=encode,
        patches=places if patches is not None else None,
        text=getattr(model, "encode_text", None),
        text_tokens=words if tokens is not None else None,
        blocks=by_hooks(model, encode) if isinstance(model, nn.Module) else None,
        module=model if isinstance(model, nn.Module) else None,
        mean=_channels(model, spec, "mean", CLIP_MEAN),
        std=_channels(model, spec, "std", CLIP_STD),
        code=digest_of_classes(model),
        context_length=getattr(model, "context_length", None),
        count_tokens=getattr(model, "count_tokens", None),
        device=next((weight.device for weight in weights), torch.device("cpu")),
    )


def _channels(model: Any, spec: str, name: str, default: tuple[float, float, float]) -> tuple[float, float, float]:
    values = getattr(model, name, default)
    try:
        red, green, blue = map(float, values)
    except (TypeError, ValueError) as error:
        raise EncoderError(f"encoder {spec!r} has {name} = {values!r}; expected a number for each channel") from error
    return red, green, blue


def _two(spec: str, name: str, function: Any, inputs: Any, expected: str) -> tuple[Any, Any]:
    """The two things that a function returns; a tensor of two rows is not two things."""
    outputs = function(inputs)
    if isinstance(outputs, tuple | list) and len(outputs) == 2:
        return outputs[0], outputs[1]
    raise EncoderError(f"encoder {spec!r}: {name} gave a {type(outputs).__name__}; expected {expected}")


@contextmanager
def borrowed(encoder: Any) -> Iterator[None]:
    """Leave a module as it came: device, training mode of each part, and which weights want gradients."""
    module = encoder if isinstance(encoder, nn.Module) else getattr(encoder, "module", None)
    if not isinstance(module, nn.Module):
        yield
        return
    training = {part: part.training for part in module.modules()}
    gradients = {weight: weight.requires_grad for weight in module.parameters()}
    device = next((weight.device for weight in module.parameters()), None)
    own_device = encoder.device if isinstance(encoder, Encoder) else None
    try:
        yield
    finally:
        if device is not None:
            module.to(device)
        if own_device is not None:
            encoder.device = own_device
        for part, mode in training.items():
            part.training = mode
        for weight, required in gradients.items():
            weight.requires_grad_(required)
