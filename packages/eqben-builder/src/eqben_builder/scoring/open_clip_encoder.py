"""A CLIP of open_clip (or OpenAI's) as the dual encoder that scoring takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float32, UInt8

_LIBRARIES = ("open_clip", "clip", "transformers")


class OpenClipEncoder:
    """Features of a model of open_clip, of images as they are decoded and of captions as texts.

    Args:
        model: With `encode_image` and `encode_text` over tensors; it is put into evaluation mode.
        preprocess: From a Pillow image to a tensor, as `open_clip.create_model_and_transforms` gives it last.
        tokenizer: From texts to a tensor of tokens, as `open_clip.get_tokenizer` gives it.
        device: Where the model is.

    Example:
        >>> import torch
        >>> class Mean(torch.nn.Module):
        ...     def encode_image(self, images):
        ...         return images.mean((2, 3))
        ...     def encode_text(self, tokens):
        ...         return tokens.float()
        >>> to_tensor = lambda image: torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255
        >>> encoder = OpenClipEncoder(Mean(), to_tensor, lambda texts: torch.ones(len(texts), 3))
        >>> encoder.encode_image([np.full((2, 2, 3), 255, np.uint8)]).tolist(), encoder.encode_text(["a"]).shape
        ([[1.0, 1.0, 1.0]], (1, 3))
    """

    def __init__(
        self, model: Any, preprocess: Callable[[Any], Any], tokenizer: Callable[[list[str]], Any], device: str = "cpu"
    ) -> None:
        self.model, self.preprocess, self.tokenizer, self.device = model.eval(), preprocess, tokenizer, device

    def encode_image(self, images: Sequence[UInt8[np.ndarray, "h w 3"]]) -> Float32[np.ndarray, "n d"]:
        """Return features of images, uint8 [height, width, 3] of any sizes."""
        import torch
        from PIL import Image

        batch = torch.stack([self.preprocess(Image.fromarray(image)) for image in images]).to(self.device)
        with torch.inference_mode():
            return np.asarray(self.model.encode_image(batch).float().cpu(), dtype=np.float32)

    def encode_text(self, captions: Sequence[str]) -> Float32[np.ndarray, "n d"]:
        """Return features of captions."""
        import torch

        with torch.inference_mode():
            features = self.model.encode_text(self.tokenizer(list(captions)).to(self.device))
        return np.asarray(features.float().cpu(), dtype=np.float32)


def check_encoder(encoder: object) -> None:
    """Say how a library's own model becomes an encoder of images and captions.

    Raises:
        TypeError: A model of open_clip, clip or transformers, which takes tensors.
    """
    library = type(encoder).__module__.partition(".")[0]
    if library in _LIBRARIES:
        raise TypeError(
            f"encoder: {type(encoder).__name__} of {library} takes tensors, expected encode_image of arrays and "
            "encode_text of texts: OpenClipEncoder(model, preprocess, tokenizer) makes such of it"
        )
