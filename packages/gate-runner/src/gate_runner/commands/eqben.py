"""``gate-runner eqben``: eqben-builder's commands, with this package's encoders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eqben_builder.cli import make_app
from eqben_builder.commands.models import Models
from gate_runner.own_models import own_model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gate_runner.encoders.encoder import Encoder


def encoder_of(spec: str, device: str) -> Cropping:
    """The encoder of a spec, for pictures of any size."""
    from gate_runner.encoders import load_encoder

    return Cropping(load_encoder(spec, device=device))


app = make_app(Models(encoder_of, own_model, usual="micro-clip"))


class Cropping:
    """An encoder behind the two functions that scores of pairs need; oblong pictures are cropped to a square.

    Args:
        encoder: One with a text side.

    Squares of one size go to the encoder as they are, which resizes them itself.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    def encode_image(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Features ``[n, d]`` of pictures of any sizes."""
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
        features: NDArray[np.float32] = self.encoder.encode_text(captions).cpu().numpy()
        return features


def middle_of(image: NDArray[np.uint8], high: int, wide: int) -> NDArray[np.uint8]:
    """The largest part of a shape in the middle of a picture.

    Example:
        >>> import numpy as np
        >>> middle_of(np.zeros((4, 7, 3), np.uint8), 1, 1).shape
        (4, 4, 3)
    """
    height, width = image.shape[:2]
    down, across = min(height, width * high // wide), min(width, height * wide // high)
    top, left = (height - down) // 2, (width - across) // 2
    return image[top : top + down, left : left + across]
