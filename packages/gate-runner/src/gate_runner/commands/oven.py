"""``gate-runner oven``: oven-retrieval's commands, with the runner's encoders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from oven_retrieval.cli import make_app
from oven_retrieval.commands.encoders import Encoders

if TYPE_CHECKING:
    from jaxtyping import UInt8
    from torch import Tensor

    from gate_data.request import Size
    from gate_runner.encoders.encoder import Encoder
    from oven_retrieval.models import Tower


def load(spec: str, device: str) -> Encoder:
    """One of the runner's encoders, by its spec string."""
    from gate_runner.encoders import load_encoder

    return load_encoder(spec, device=device)


def of_file(spec: str, file: Path) -> str:
    """A spec out of a file, where a file may choose it."""
    from gate_runner.encoders.named import spec_of_file

    return spec_of_file(spec, file)


def read_pictures(paths: Sequence[Path], size: Size) -> UInt8[Tensor, "n 3 h w"]:
    """The middle of each picture, at the encoder's size, as the runner reads pictures everywhere."""
    import numpy as np
    import torch

    from gate_data.readers.decode import decode, resized

    pixels = [np.asarray(resized(decode(str(path), size), size)) for path in paths]
    return torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2)


def towers_of(spec: str, device: str) -> Callable[[], tuple[Tower, Tower]]:
    """A function that loads an encoder anew and gives its image tower and its text tower."""

    def make() -> tuple[Tower, Tower]:
        from torch import nn

        from oven_retrieval.models import Tower

        model = load(spec, device)
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


ENCODERS = Encoders(load, of_file, towers_of, read_pictures)
app = make_app(ENCODERS)
