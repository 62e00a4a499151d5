"""The commands of eqben-builder, oven-retrieval and knowledge-prompts, with this package's encoders."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eqben_builder.cli import make_app as make_eqben
from eqben_builder.commands.models import Models
from gate_runner.plugins import own_model
from knowledge_prompts.cli import make_app as make_prompts
from oven_retrieval.cli import make_app as make_oven
from oven_retrieval.commands.encoders import Encoders
from vision_features.encoders.named import spec_of_file

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import UInt8
    from numpy.typing import NDArray
    from torch import Tensor

    from gate_data.request import Size
    from oven_retrieval.models import Tower
    from vision_features.encoders.encoder import Encoder


def load(spec: str, device: str) -> Encoder:
    """One of the runner's encoders, by its spec string."""
    from vision_features.encoders import load_encoder

    return load_encoder(spec, device=device)


def read_pictures(paths: Sequence[Path], size: Size) -> UInt8[Tensor, "n 3 h w"]:
    """The middle of each image, at the encoder's size, as the runner reads images everywhere."""
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
        image = Tower(weights, lambda pictures: model.image(model.prepare(pictures)).float())
        return image, Tower(weights, lambda texts: _text(model, texts))

    return make


def _text(model: Encoder, texts: list[str]) -> Tensor:
    from gate_runner.errors import MissingCapabilityError

    if model.text is None:
        raise MissingCapabilityError(f"encoder {model.spec!r} has no text side; this needs one")
    return model.text(texts).float()


class Cropping:
    """An encoder behind the two functions that scores of pairs need; oblong images are cropped to a square.

    Squares of one size go to the encoder as they are, which resizes them itself.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder, self.warned = encoder, False

    def encode_image(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Features ``[n, d]`` of images of any sizes."""
        import numpy as np
        import torch
        from PIL import Image

        _, high, wide = self.encoder.shape
        middles = [middle_of(image, high, wide) for image in images]
        if len({middle.shape for middle in middles}) > 1:
            size = (wide, high)
            middles = [np.array(Image.fromarray(middle).resize(size, Image.Resampling.BICUBIC)) for middle in middles]
        pixels = torch.from_numpy(np.stack(middles)).permute(0, 3, 1, 2)
        features: NDArray[np.float32] = self.encoder.encode_image(pixels).cpu().numpy()
        return features

    def encode_text(self, captions: Sequence[str]) -> NDArray[np.float32]:
        """Features ``[n, d]`` of captions."""
        if (cut := self.encoder.cut_texts(captions)) and not self.warned:
            self.warned = True
            logging.getLogger(__name__).warning("%s: %s", self.encoder.spec, cut)
        features: NDArray[np.float32] = self.encoder.encode_text(captions).cpu().numpy()
        return features


def middle_of(image: NDArray[np.uint8], high: int, wide: int) -> NDArray[np.uint8]:
    """The largest part of a shape in the middle of an image."""
    height, width = image.shape[:2]
    down, across = min(height, width * high // wide), min(width, height * wide // high)
    top, left = (height - down) // 2, (width - across) // 2
    return image[top : top + down, left : left + across]


ENCODERS = Encoders(load, spec_of_file, towers_of, read_pictures)
oven = make_oven(ENCODERS)
eqben = make_eqben(Models(lambda spec, device: Cropping(load(spec, device)), own_model, usual="micro-clip"))
prompts = make_prompts(lambda spec, device: load(spec, device).encode_text, encoder="micro-clip")
