"""CLIP2CLIP that looks at the places of a picture: an adaptor over patch features, for `micro_kb.py`."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from oven_retrieval.models.clip2clip import Weights
from oven_retrieval.models.contrastive import contrastive_loss
from oven_retrieval.models.dual import Clip2ClipModule

SHARPNESS = 20.0
"""Where the factor on the cosines of a text and a place starts."""


def pack(pooled: Float[Tensor, "n d"], patches: Float[Tensor, "n p w"]) -> Float[Tensor, "n d+p*w"]:
    """A picture's pooled features and those of its places as one row, which is how they are stored.

    Example:
        >>> pack(torch.zeros(2, 3), torch.ones(2, 4, 5)).shape
        torch.Size([2, 23])
    """
    return torch.cat([pooled, patches.flatten(1)], dim=1)


def unpacked(rows: Float[Tensor, "n d+p*w"], dim: int, places: int) -> Float[Tensor, "n p w"]:
    """The patches of what `pack` has made."""
    return rows[:, dim:].reshape(len(rows), places, (rows.shape[1] - dim) // places)


def fit_patch_map(
    pooled: Float[Tensor, "n d"], patches: Float[Tensor, "n p w"], penalty: float = 1e-2
) -> Float[Tensor, "w d"]:
    """The linear map from a picture's mean patch to its pooled features: where the adaptor starts.

    Ridge regression over pictures, no label involved, so that unseen entities' pictures may take part.

    Args:
        pooled: in the texts' space; of length 1 or not.
        patches: of the same pictures; a picture whose patches are all zero is left out.
        penalty: of the squared map, as a share of the patches' mean square.

    Returns:
        The map, float32.

    Example:
        >>> patches = torch.randn(200, 4, 3, generator=torch.Generator().manual_seed(0))
        >>> right = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
        >>> mapping = fit_patch_map(patches.mean(dim=1) @ right, patches, penalty=1e-6)
        >>> bool(torch.allclose(mapping, right, atol=1e-3))
        True
    """
    has_patches = patches.flatten(1).any(dim=1)
    x, y = patches[has_patches].double().mean(dim=1), pooled[has_patches].double()
    gram = x.T @ x
    ridge = penalty * float(gram.diagonal().mean().clamp_min(1e-12)) * torch.eye(len(gram), dtype=gram.dtype)
    solution: Tensor = torch.linalg.solve(gram + ridge, x.T @ y)
    return solution.float()


class PatchAttention(nn.Module):
    """What a text sees in a picture: the places that resemble it, in the texts' space.

    out = sum over places of softmax(s cos(text, K place)) V place;  0 where all places are zero, which means that there
    is no picture

    Args:
        start: [w, d] where K and V start, as `fit_patch_map` gives it.

    Example:
        >>> look = PatchAttention(torch.eye(2))
        >>> places = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
        >>> look(torch.tensor([[1.0, 0.0]]), places).round().abs().tolist()
        [[1.0, 0.0]]
    """

    def __init__(self, start: Float[Tensor, "w d"]) -> None:
        super().__init__()
        self.key, self.value = nn.Parameter(start.clone()), nn.Parameter(start.clone())
        self.log_sharpness = nn.Parameter(torch.tensor(math.log(SHARPNESS)))

    def forward(self, text: Float[Tensor, "n d"], patches: Float[Tensor, "n p w"]) -> Float[Tensor, "n d"]:
        """One vector per text and picture."""
        keys = F.normalize(patches @ self.key, dim=-1)
        near = torch.einsum("npd,nd->np", keys, F.normalize(text, dim=-1))
        share = (self.log_sharpness.exp() * near).softmax(dim=-1)
        return torch.einsum("np,npd->nd", share, patches @ self.value)


class PatchAdaptor(Clip2ClipModule):
    """CLIP2CLIP whose question image and whose entity text are both refined by patches of their picture.

    x_p <- x_p + g_q look_q(x_t, patches of the question's picture): what the question asks for, where it is
    t_e <- t_e + g_e look_e(t_e, patches of the entity's picture): the description, led by what the picture shows

    Both gates start at 0, so that training starts from CLIP2CLIP itself and an entity without a picture keeps its text
    as it is. The loss has one synthesised negative per question: the right entity's picture with the text of the
    entity of the batch whose text is nearest.

    Args:
        dim: width of pooled features.
        places: patches per picture.
        start: see `PatchAttention`; zeros where the weights will be loaded.
        weights: of the four similarities, best from `grid_search`.

    Images come as `pack` makes them.

    Example:
        >>> model = PatchAdaptor(2, 3, torch.eye(2), Weights(1.0, 0.0, 0.5, 0.0))
        >>> image, text = pack(torch.eye(2), torch.randn(2, 3, 2)), torch.eye(2)
        >>> model.similarity(model.query(image, text), model.entity(image, text)).tolist()  # the gates are closed
        [[1.5, 0.0], [0.0, 1.5]]

    Source: Ning et al. 2026 (WikiCLIP), arXiv 2603.09921, for entity texts led by patches and for negatives with
    another entity's text. Theirs attends over a language model's tokens of whole descriptions and leaves the question's
    side alone; ours stays in CLIP's space, with one head, and looks at the question's picture too.
    """

    def __init__(
        self,
        dim: int,
        places: int,
        start: Float[Tensor, "w d"],
        weights: Weights = Weights(1.0, 1.0, 1.0, 1.0),  # noqa: B008  # a NamedTuple of numbers cannot change
    ) -> None:
        super().__init__(weights)
        self._dim, self._places = dim, places
        self.look_query, self.look_entity = PatchAttention(start), PatchAttention(start)
        self.gates = nn.Parameter(torch.zeros(2))

    def _unpack(self, image: Tensor) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n p w"]]:
        packed = image.float()
        return packed[:, : self._dim], unpacked(packed, self._dim, self._places)

    def query(self, image: Tensor, text: Tensor) -> Float[Tensor, "q 2d"]:
        """The question's side of the inner product, weights included."""
        pooled, patches = self._unpack(image)
        refined = F.normalize(pooled, dim=-1) + self.gates[0] * self.look_query(text, patches)
        return super().query(refined, text)

    def entity(self, image: Tensor, text: Tensor) -> Float[Tensor, "e 2d"]:
        """The entity's side: text and image."""
        pooled, patches = self._unpack(image)
        refined = F.normalize(text, dim=-1) + self.gates[1] * self.look_entity(text, patches)
        return super().entity(pooled, refined)

    def loss(
        self, image: Tensor, text: Tensor, entity_image: Tensor, entity_text: Tensor, truth: Int[Tensor, " b"]
    ) -> Float[Tensor, ""]:
        """`contrastive_loss`, and beside each question's right entity its picture with another's text."""
        scale, queries = self.log_scale.exp(), self.query(image, text)
        logits = scale * self.similarity(queries, self.entity(entity_image, entity_text))
        nearest = nearest_other(entity_text, truth)
        negative = scale * (queries * self.entity(entity_image, entity_text[nearest])).sum(dim=1)
        # A batch of one entity alone has no other text: its negative would be the right answer.
        negative = negative.masked_fill(truth[nearest] == truth, -torch.inf)
        right = logits.diagonal()
        return contrastive_loss(logits, truth) + F.softplus(negative - right).mean()


def nearest_other(text: Float[Tensor, "b d"], truth: Int[Tensor, " b"]) -> Int[Tensor, " b"]:
    """For each question of a batch the one, of another entity, whose entity's text is nearest."""
    unit = F.normalize(text, dim=-1)
    near = (unit @ unit.T).masked_fill(truth[:, None] == truth[None, :], -torch.inf)
    return near.argmax(dim=1)
