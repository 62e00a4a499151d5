"""Heads on several inputs: questions about images, clips of frames, and image-text pairs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vision_adapters.heads.transformer import Transformer, sinusoidal_positions


class RelationalHead(nn.Module):
    """Answers to a question about an image, from the tokens of both.

    Both sides are projected to one width, marked by a learned vector for their side and by fixed positions, and mixed
    with a learned answer token by a transformer (`width`, `depth`, `heads`); a linear layer reads the answer token.

    Example:
        >>> head = RelationalHead(6, 4, 10, width=16)
        >>> head(torch.randn(2, 9, 6), torch.randn(2, 5, 4), torch.ones(2, 5, dtype=torch.bool)).shape
        torch.Size([2, 10])

    Source:
        GATE's relational head (512 wide, 4 blocks, one linear layer per answer type); here one answer list.
    """

    def __init__(
        self, image_dim: int, text_dim: int, answers: int, *, width: int = 256, depth: int = 2, heads: int = 4
    ) -> None:
        super().__init__()
        if min(image_dim, text_dim, answers) < 1:
            raise ValueError(f"sizes must be at least 1, got {image_dim=}, {text_dim=}, {answers=}")
        self.image = nn.Sequential(nn.LayerNorm(image_dim), nn.Linear(image_dim, width))
        self.text = nn.Sequential(nn.LayerNorm(text_dim), nn.Linear(text_dim, width))
        self.sides = nn.Parameter(torch.randn(2, width) * 0.02)
        self.ask = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.mix = Transformer(width, depth, heads)
        self.answer = nn.Linear(width, answers)

    def forward(
        self,
        image_tokens: Float[Tensor, "n t d"],
        text_tokens: Float[Tensor, "n l e"],
        text_mask: Bool[Tensor, "n l"],
    ) -> Float[Tensor, "n k"]:
        """Scores of each answer; `text_mask` is True at real tokens, and what lies under False changes nothing."""
        n, t, _ = image_tokens.shape
        if text_mask.shape != text_tokens.shape[:2] or len(text_tokens) != n:
            raise ValueError(
                f"text_mask has shape {tuple(text_mask.shape)}, text tokens {tuple(text_tokens.shape)}, "
                f"image tokens {tuple(image_tokens.shape)}; expected [n, l], [n, l, e] and [n, t, d]"
            )
        keep = text_mask.to(torch.bool)
        text_tokens = text_tokens.masked_fill(~keep[..., None], 0.0)
        width = self.ask.shape[-1]
        places = sinusoidal_positions(max(t, keep.shape[1]), width, self.ask.device).to(self.ask)
        image = self.image(image_tokens) + self.sides[0] + places[:t]
        text = self.text(text_tokens) + self.sides[1] + places[: keep.shape[1]]
        x = torch.cat([self.ask.expand(n, -1, -1), image, text], dim=1)
        keep = torch.cat([keep.new_ones(n, 1 + t), keep], dim=1)
        scores: Tensor = self.answer(self.mix.first(x, keep))
        return scores


class PooledAsToken(RelationalHead):
    """A relational head for an encoder without patch features: its pooled features are the one image token.

    Example:
        >>> head = PooledAsToken(6, 4, 10, width=16)
        >>> head(torch.randn(2, 6), torch.randn(2, 5, 4), torch.ones(2, 5, dtype=torch.bool)).shape
        torch.Size([2, 10])
    """

    def forward(
        self,
        image_tokens: Float[Tensor, "n d"],
        text_tokens: Float[Tensor, "n l e"],
        text_mask: Bool[Tensor, "n l"],
    ) -> Float[Tensor, "n k"]:
        """Scores of each answer."""
        return super().forward(image_tokens[:, None], text_tokens, text_mask)


class TemporalHead(nn.Module):
    """Class scores, or regressed numbers, from the features of a clip's frames, by a transformer.

    Example:
        >>> TemporalHead(6, 3, frames=4, width=16)(torch.randn(2, 4, 6)).shape
        torch.Size([2, 3])

    Source:
        GATE's video head (4 blocks over 8 frames).
    """

    def __init__(
        self, dim: int, outputs: int, *, frames: int = 8, width: int = 256, depth: int = 2, heads: int = 4
    ) -> None:
        super().__init__()
        if min(dim, outputs, frames) < 1:
            raise ValueError(f"sizes must be at least 1, got {dim=}, {outputs=}, {frames=}")
        self.enter = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, width))
        self.position = nn.Parameter(torch.randn(1, 1 + frames, width) * 0.02)
        self.mix = Transformer(width, depth, heads)
        self.leave = nn.Linear(width, outputs)

    def forward(self, frames: Float[Tensor, "n f d"]) -> Float[Tensor, "n k"]:
        """Scores of each clip, read from a token that has seen every frame."""
        expected = self.position.shape[1] - 1
        if frames.ndim != 3 or frames.shape[1] != expected:
            raise ValueError(f"frames have shape {tuple(frames.shape)}, expected [n, {expected}, d]")
        x = F.pad(self.enter(frames), (0, 0, 1, 0)) + self.position
        scores: Tensor = self.leave(self.mix.first(x))
        return scores
