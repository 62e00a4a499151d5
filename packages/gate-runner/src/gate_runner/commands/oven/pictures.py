"""Pictures as encoders take them, and encoders as towers that can be fine-tuned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtyping import UInt8
    from torch import Tensor

    from gate_runner.encoders.encoder import Encoder
    from oven_retrieval.models import Tower


def read_pictures(paths: Sequence[Path], size: int) -> UInt8[Tensor, "n 3 s s"]:
    """Pictures as one batch: the middle square of each, at the encoder's size.

    Args:
        paths: image files.
        size: side in pixels.

    Returns:
        The batch.

    Raises:
        UsageError: a file that is no picture; its name is shown.
    """
    import numpy as np
    import torch

    from gate_data.readers.decode import decode, square

    squares = [np.asarray(square(decode(str(path), size), size)) for path in paths]
    return torch.from_numpy(np.stack(squares)).permute(0, 3, 1, 2)


def towers_of(spec: str, device: str) -> Callable[[], tuple[Tower, Tower]]:
    """A function that loads an encoder anew and gives its image tower and its text tower.

    Args:
        spec: encoder, as on the command line.
        device: torch device.

    Returns:
        The function; each call loads another copy of the weights.
    """

    def make() -> tuple[Tower, Tower]:
        from torch import nn

        from gate_runner.encoders import load_encoder
        from oven_retrieval.models import Tower

        model = load_encoder(spec, device=device)
        weights = nn.Module() if model.module is None else model.module
        image = Tower(
            weights,
            lambda pictures: model.image(model.prepare(pictures)).float(),
            None if model.patches is None else lambda pictures: model.encode_patches(pictures).tokens.clone(),
        )
        return image, Tower(weights, lambda texts: _text(model, texts))

    return make


def _text(model: Encoder, texts: list[str]) -> Tensor:
    from gate_runner.errors import MissingCapabilityError

    if model.text is None:
        raise MissingCapabilityError(f"encoder {model.spec!r} has no text side; this needs one")
    return model.text(texts).float()
