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

        squares = [middle_square(image) for image in images]
        if len({square.shape for square in squares}) > 1:
            side = (self.encoder.image_size,) * 2
            squares = [np.array(Image.fromarray(square).resize(side, Image.Resampling.BICUBIC)) for square in squares]
        pixels = torch.from_numpy(np.stack(squares)).permute(0, 3, 1, 2)
        features: NDArray[np.float32] = self.encoder.encode_image(pixels).cpu().numpy()
        return features

    def encode_text(self, captions: Sequence[str]) -> NDArray[np.float32]:
        """Features ``[n, d]`` of captions."""
        features: NDArray[np.float32] = self.encoder.encode_text(captions).cpu().numpy()
        return features


def middle_square(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The largest square in the middle of a picture.

    Example:
        >>> import numpy as np
        >>> middle_square(np.zeros((4, 7, 3), np.uint8)).shape
        (4, 4, 3)
    """
    height, width = image.shape[:2]
    side = min(height, width)
    top, side_start = (height - side) // 2, (width - side) // 2
    return image[top : top + side, side_start : side_start + side]
