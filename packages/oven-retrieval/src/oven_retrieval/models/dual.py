"""CLIP2CLIP and CLIP Fusion as torch modules, to be trained on questions; needs the extra `torch`."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from oven_retrieval.models.clip2clip import EQUAL_WEIGHTS, Weights

TEMPERATURE = 0.07
"""Of the logits, where training starts; it is learned."""


class Clip2ClipModule(nn.Module):
    """CLIP2CLIP with learnable weights, and with encoders that may be fine-tuned.

    s(x, e) = a <x_p, t_e> + b <x_t, p_e> + c <x_p, p_e> + d <x_t, t_e>

    Args:
        weights: where the four weights start, best from `grid_search`.
        query_image: module from a batch of question images to features [n, d]; None where the inputs are features
            already. Likewise `query_text`, `entity_image` and `entity_text`. The paper starts query and
            entity side from the same CLIP and trains all four.

    Example:
        >>> model = Clip2ClipModule(Weights(1.0, 0.0, 0.5, 0.0))
        >>> x, y = torch.eye(2), torch.eye(2)
        >>> model.similarity(model.query(x, y), model.entity(x, y)).tolist()
        [[1.5, 0.0], [0.0, 1.5]]

    Source: OVEN sections 4.1 and 11.2, which leave the temperature open.
    """

    def __init__(
        self,
        weights: Weights = EQUAL_WEIGHTS,
        *,
        query_image: nn.Module | None = None,
        query_text: nn.Module | None = None,
        entity_image: nn.Module | None = None,
        entity_text: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.raw_weights = nn.Parameter(torch.tensor(list(weights), dtype=torch.float32))
        self.log_scale = nn.Parameter(torch.tensor(-math.log(TEMPERATURE)))
        self.query_image, self.query_text = query_image or nn.Identity(), query_text or nn.Identity()
        self.entity_image, self.entity_text = entity_image or nn.Identity(), entity_text or nn.Identity()

    @property
    def weights(self) -> Weights:
        """The four weights as they are now, for `Clip2Clip.search`."""
        return Weights(*self.raw_weights.detach().tolist())

    def query(self, image: Tensor, text: Tensor) -> Float[Tensor, "q 2d"]:
        """The question's side of the inner product, weights included."""
        x_p, x_t = F.normalize(self.query_image(image), dim=-1), F.normalize(self.query_text(text), dim=-1)
        a, b, c, d = self.raw_weights
        return torch.cat([a * x_p + d * x_t, c * x_p + b * x_t], dim=-1)

    def entity(self, image: Tensor, text: Tensor) -> Float[Tensor, "e 2d"]:
        """The entity's side: text and image."""
        p_e, t_e = F.normalize(self.entity_image(image), dim=-1), F.normalize(self.entity_text(text), dim=-1)
        return torch.cat([t_e, p_e], dim=-1)

    def similarity(self, query: Float[Tensor, "q w"], entity: Float[Tensor, "e w"]) -> Float[Tensor, "q e"]:
        """Scores of all pairs, without the temperature."""
        return query @ entity.T

    def forward(self, image: Tensor, text: Tensor, entity_image: Tensor, entity_text: Tensor) -> Float[Tensor, "q e"]:
        """Logits of all pairs."""
        return self.log_scale.exp() * self.similarity(self.query(image, text), self.entity(entity_image, entity_text))


class MixedEncoder(nn.Module):
    """A two-layer transformer over one image token and one text token; the mean of its outputs, of length 1."""

    def __init__(self, dim: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"heads: expected a divisor of the width {width}, got {heads}")
        self.project = nn.ModuleList([nn.Linear(dim, width), nn.Linear(dim, width)])
        self.kind = nn.Parameter(torch.zeros(2, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)

    def forward(self, image: Float[Tensor, "n d"], text: Float[Tensor, "n d"]) -> Float[Tensor, "n w"]:
        """Image and text features to one vector."""
        pair = [F.normalize(side, dim=-1) * math.sqrt(side.shape[-1]) for side in (image, text)]
        tokens = torch.stack([layer(side) for layer, side in zip(self.project, pair, strict=True)], dim=1) + self.kind
        mixed: Tensor = self.layers(tokens)
        return F.normalize(mixed.mean(dim=1), dim=-1)


class ClipFusion(nn.Module):
    """CLIP Fusion: a mixed-modality encoder for questions and another for entities, their parameters not shared.

    Args:
        dim: width of the image and text features.
        width: width of the encoders; 768 in the paper.
        heads: attention heads; 12 in the paper.
        layers: 2 in the paper.
        query_image: module from a batch of question images to features [n, d], trained, too; None where the inputs are
            features already. Likewise `query_text`, `entity_image` and `entity_text`. The paper starts both sides from
            the same CLIP and trains all of it.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> model = ClipFusion(8, width=16, heads=2)
        >>> model(torch.randn(3, 8), torch.randn(3, 8), torch.randn(5, 8), torch.randn(5, 8)).shape
        torch.Size([3, 5])

    Source: OVEN sections 4.1 and 11.1. Theirs are T5 layers, ours pre-norm transformer layers over pooled features.
    """

    def __init__(
        self,
        dim: int,
        *,
        width: int = 768,
        heads: int = 12,
        layers: int = 2,
        query_image: nn.Module | None = None,
        query_text: nn.Module | None = None,
        entity_image: nn.Module | None = None,
        entity_text: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.query_mixer = MixedEncoder(dim, width, heads, layers)
        self.entity_mixer = MixedEncoder(dim, width, heads, layers)
        self.query_image, self.query_text = query_image or nn.Identity(), query_text or nn.Identity()
        self.entity_image, self.entity_text = entity_image or nn.Identity(), entity_text or nn.Identity()
        self.log_scale = nn.Parameter(torch.tensor(-math.log(TEMPERATURE)))

    def query(self, image: Tensor, text: Tensor) -> Float[Tensor, "q w"]:
        """Vectors of questions, of length 1."""
        vectors: Tensor = self.query_mixer(self.query_image(image), self.query_text(text))
        return vectors

    def entity(self, image: Tensor, text: Tensor) -> Float[Tensor, "e w"]:
        """Vectors of entities, of length 1."""
        vectors: Tensor = self.entity_mixer(self.entity_image(image), self.entity_text(text))
        return vectors

    def similarity(self, query: Float[Tensor, "q w"], entity: Float[Tensor, "e w"]) -> Float[Tensor, "q e"]:
        """Cosines of all pairs."""
        return query @ entity.T

    def forward(self, image: Tensor, text: Tensor, entity_image: Tensor, entity_text: Tensor) -> Float[Tensor, "q e"]:
        """Logits of all pairs."""
        return self.log_scale.exp() * self.similarity(self.query(image, text), self.entity(entity_image, entity_text))
