"""Models that a command is told by name: by default `MODULE:FUNCTION`, where the function makes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wary_files.working_folder import made_by

if TYPE_CHECKING:
    from eqben_builder.scoring.similarity import DualEncoder


def encoder_by(spec: str, device: str) -> DualEncoder:
    """A dual encoder: something with `encode_image` and `encode_text`; a `ValueError` where it lacks one."""
    encoder: DualEncoder = made_by(spec, "model", device=device)
    for method in ("encode_image", "encode_text"):
        if not callable(getattr(encoder, method, None)):
            raise ValueError(f"model {spec!r}: what it makes has no {method}: expected encode_image and encode_text")
    return encoder


def model_by(spec: str) -> Callable[..., Any]:
    """A model that is called; a `ValueError` where it cannot be."""
    model: Any = made_by(spec, "model")
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
