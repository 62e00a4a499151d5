"""Models that a command is told by name: by default `MODULE:FUNCTION`, where the function makes one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wary_files.working_folder import import_named

if TYPE_CHECKING:
    from eqben_builder.scoring.similarity import DualEncoder


def made_by(spec: str, device: str | None = None) -> Any:
    """Call `MODULE:FUNCTION`, with the device where it takes one, and return what it made."""
    module_name, _, function_name = spec.partition(":")
    if not module_name or not function_name:
        raise ValueError(f"model {spec!r}: expected MODULE:FUNCTION")
    try:
        module = import_named(module_name)
    except ImportError as error:
        raise ValueError(f"model {spec!r}: cannot import {module_name!r}: {error}") from error
    if not hasattr(module, function_name):
        raise ValueError(f"model {spec!r}: module {module_name!r} has no {function_name!r}")
    make = getattr(module, function_name)
    try:
        takes_device = device is not None and "device" in inspect.signature(make).parameters
    except (TypeError, ValueError):  # something built in
        takes_device = False
    return make(device=device) if takes_device else make()


def encoder_by(spec: str, device: str) -> DualEncoder:
    """A dual encoder: something with `encode_image` and `encode_text`; a `ValueError` where it lacks one."""
    encoder: DualEncoder = made_by(spec, device)
    for method in ("encode_image", "encode_text"):
        if not callable(getattr(encoder, method, None)):
            raise ValueError(f"model {spec!r}: what it makes has no {method}: expected encode_image and encode_text")
    return encoder


def model_by(spec: str) -> Callable[..., Any]:
    """A model that is called; a `ValueError` where it cannot be."""
    model: Any = made_by(spec)
    if not callable(model):
        raise ValueError(f"model {spec!r}: what it makes cannot be called")
    function: Callable[..., Any] = model
    return function


@dataclass(frozen=True)
class Models:
    """How the commands come by models.

    Args:
        encoder: (spec, device) -> a dual encoder of images [height, width, 3] and captions.
        model: spec -> a fusion model, a multimodal language model or a model of captions.
        usual: The encoder's spec where none is given; None asks for one.

    Example:
        >>> Models(usual="small").default()
        ['small']
    """

    encoder: Callable[[str, str], DualEncoder] = encoder_by
    model: Callable[[str], Callable[..., Any]] = model_by
    usual: str | None = None

    def fusion(self, spec: str, device: str) -> Callable[..., Any]:
        """A model of images with captions: one of transformers by ``hf-itm:``, any other as `model` has it."""
        from eqben_builder.scoring.matching_models import SPEC, load_matching

        return load_matching(spec, device) if spec.startswith(SPEC) else self.model(spec)

    def default(self) -> list[str]:
        """Specs where the command line names none."""
        if self.usual is None:
            raise ValueError("give --encoder MODULE:FUNCTION, where the function returns encode_image and encode_text")
        return [self.usual]
