"""A head on an encoder's own features, as a task gives it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor, nn

Features = Literal["projected", "backbone"]


@dataclass(frozen=True)
class KeptHead:
    """A head that a task gives back where heads are to be kept.

    Args:
        module: features ``[n, d]`` of the encoder, as they come, to scores ``[n, k]``.
        features: which features of the encoder it takes.
        classes: whose scores these are; those of the data by default.
        prompts: the texts that stood for each class; empty where none were used.
        part: of the encoder that was trained with it; empty where the encoder is as it was.
        encoder: the encoder's trained weights, where it is not as it was.
    """

    module: nn.Module
    features: Features
    classes: Sequence[str] = ()
    prompts: Sequence[str] = ()
    part: str = ""
    encoder: Mapping[str, Tensor] | None = None
