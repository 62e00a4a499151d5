"""Patch stems, with which text and audio encoders see images."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn


class PatchStem(nn.Module):
    """Cut an image into patches and map each to a token of so many numbers, row by row."""

    def __init__(self, width: int, patch: int = 16, channels: int = 3) -> None:
        super().__init__()
        if min(width, patch, channels) < 1:
            raise ValueError(f"sizes must be at least 1, got {width=}, {patch=}, {channels=}")
        self.patch = patch
        self.cut = nn.Conv2d(channels, width, patch, stride=patch)

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n t d"]:
        """One token per patch; sides must be multiples of the patch."""
        if images.shape[-1] % self.patch or images.shape[-2] % self.patch:
            raise ValueError(f"images are {tuple(images.shape[-2:])} pixels, expected multiples of {self.patch}")
        tokens: Tensor = self.cut(images).flatten(2).transpose(1, 2)
        return tokens


class PatchEncoder(nn.Module):
    """A text or audio transformer whose own input layer is replaced by a patch stem.

    BERT, MPNet and the like take the tokens in place of word embeddings and add their own positions. BART's encoder
    does the same. Whisper's convolutions over sound are passed by; its positions and layers are kept. The stem starts
    at random (from the global generator); everything else keeps the model's weights.

    Args:
        model: a Hugging Face model of one of these types: bert, roberta, mpnet, distilbert, bart, whisper.
        patch: side of a patch in pixels.
        channels: of the image.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertModel
        >>> text = BertModel(BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2))
        >>> PatchEncoder(text).pooled(torch.zeros(2, 3, 64, 64)).shape
        torch.Size([2, 32])

    Source:
        GATE's modality shift: text and audio encoders with a 16 x 16 patch convolution in front.
    """

    def __init__(self, model: nn.Module, *, patch: int = 16, channels: int = 3) -> None:
        super().__init__()
        config: Any = getattr(model, "config", None)
        kind = getattr(config, "model_type", type(model).__name__)
        self.kind = str(kind)
        if self.kind in ("bert", "roberta", "mpnet", "distilbert"):
            core, width, positions = model, config.hidden_size, config.max_position_embeddings
            positions -= 2 if self.kind in ("roberta", "mpnet") else 0  # numbered from the padding token's index on
        elif self.kind == "bart":
            core, width, positions = _encoder(model), config.d_model, config.max_position_embeddings
        elif self.kind == "whisper":
            core, width, positions = _encoder(model), config.d_model, config.max_source_positions
        else:
            raise ValueError(
                f"no patch stem for {self.kind!r}, expected bert, roberta, mpnet, distilbert, bart or whisper"
            )
        self.stem = PatchStem(width, patch, channels)
        self.core: Any = core
        self.positions = positions

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n t d"]:
        """The last layer's tokens, one per patch."""
        tokens = self.stem(images)
        if tokens.shape[1] > self.positions:
            raise ValueError(f"{tokens.shape[1]} patches, but the model has {self.positions} positions")
        if self.kind == "whisper":
            hidden = tokens + self.core.embed_positions.weight[: tokens.shape[1]]
            for layer in self.core.layers:
                out = layer(hidden, attention_mask=None)
                hidden = out[0] if isinstance(out, tuple) else out
            normed: Tensor = self.core.layer_norm(hidden)
            return normed
        last: Tensor = self.core(inputs_embeds=tokens).last_hidden_state
        return last

    def pooled(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """The mean over patches."""
        return self(images).mean(1)  # type: ignore[no-any-return]  # a module's call has no type


def _encoder(model: Any) -> nn.Module:
    """The encoder of an encoder-decoder, or the model itself if it is one already."""
    for path in ("model.encoder", "encoder"):
        encoder = model
        for name in path.split("."):
            encoder = getattr(encoder, name, None)
        if isinstance(encoder, nn.Module):
            return encoder
    return model  # type: ignore[no-any-return]  # models come untyped
