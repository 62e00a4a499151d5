"""The user's own encoder: ``package.module:function``, where the function takes nothing and returns it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from gate_runner.encoders.encoder import CLIP_MEAN, CLIP_STD, Encoder, PatchFeatures, TextTokens
from gate_runner.encoders.spec import EncoderSpec
from gate_runner.errors import EncoderError


def load(spec: EncoderSpec) -> Encoder:
    """Import the module (the current directory is searched too), call the function, wrap what it returns.

    Raises:
        EncoderError: no such module or function, the function fails, or its result encodes no images.
    """
    module_name, _, function_name = spec.name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last: a file that is called like a library must not take its place
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise EncoderError(
            f"encoder {spec.text!r}: cannot import {module_name!r}: {_why(module_name, error)}"
        ) from error
    if not hasattr(module, function_name):
        raise EncoderError(f"encoder {spec.text!r}: module {module_name!r} has no {function_name!r}")
    try:
        made = getattr(module, function_name)()
    except Exception as error:
        raise EncoderError(
            f"encoder {spec.text!r}: {function_name}() raised {type(error).__name__}: {error}"
        ) from error
    return adopt(made, spec.text)


def _why(module_name: str, error: Exception) -> str:
    """Why a module is not imported; a file's name in its place is the most frequent reason."""
    stem = module_name.removesuffix(".py")
    if stem != module_name:
        return f"name the module, not its file: {stem.lstrip('./').replace('/', '.')}:…"
    return str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"


def adopt(made: Any, spec: str) -> Encoder:
    """Wrap any object as an encoder.

    Args:
        made: an `Encoder`; an object with ``encode_image(images) -> [n, d]`` and, if it has them,
            ``encode_patches(images) -> (tokens, (rows, columns))``, ``encode_text(texts) -> [n, d]``,
            ``encode_text_tokens(texts) -> (tokens, mask)``, ``image_size``, ``mean``, ``std``; or a
            plain ``nn.Module`` from images to pooled features.
        spec: the string that the encoder goes by.

    Returns:
        The encoder. Images reach it resized to ``image_size`` (224 where it says nothing) and normalised.

    Raises:
        EncoderError: the object is none of these; the message shows its type.
    """
    if isinstance(made, Encoder):
        return made
    encode = getattr(made, "encode_image", made if isinstance(made, nn.Module) else None)
    if encode is None:
        raise EncoderError(
            f"encoder {spec!r} is a {type(made).__name__} without encode_image; expected an object with "
            "encode_image(images) or an nn.Module"
        )
    patches = getattr(made, "encode_patches", None)
    tokens = getattr(made, "encode_text_tokens", None)

    def places(images: Tensor) -> PatchFeatures:
        return PatchFeatures(*patches(images))  # type: ignore[misc]  # only called where it is not None

    def words(texts: Sequence[str]) -> TextTokens:
        return TextTokens(*tokens(texts))  # type: ignore[misc]  # likewise

    return Encoder(
        spec=spec,
        image_size=int(getattr(made, "image_size", 224)),
        image=encode,
        patches=places if patches is not None else None,
        text=getattr(made, "encode_text", None),
        text_tokens=words if tokens is not None else None,
        module=made if isinstance(made, nn.Module) else None,
        mean=getattr(made, "mean", CLIP_MEAN),
        std=getattr(made, "std", CLIP_STD),
    )
