"""Features for heads of one projection or two (ELEVATER): before and behind an encoder's way into the texts' space."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def projected_features(
    train: Float[Tensor, "n b"],
    test: Float[Tensor, "m b"],
    projection: Float[Tensor, "b d"] | None,
    heads: str,
    *,
    anchored: bool,
) -> tuple[Float[Tensor, "n f"], Float[Tensor, "m f"]]:
    """Return training and test features as a head of one projection or two sees them.

    Behind two projections a head sees the projected features alone. In place of the projection it sees the features
    before it; if it is anchored at class texts, they are turned, so that the projected ones come first and what the
    projection leaves out follows, at the same mean square per number on the training features.

    Args:
        train: features before the projection.
        test: of other images.
        projection: into the texts' space; None where an encoder has none: all heads see the features as they are.
        heads: "1p" or "2p".
        anchored: whether class texts are to stand beside the features, see `padded_texts`.

    Raises:
        ValueError: another value of `heads`.

    Example:
        >>> behind, _ = projected_features(torch.eye(3), torch.eye(3), torch.eye(3, 2), "2p", anchored=True)
        >>> behind.shape
        torch.Size([3, 2])

    Source:
        ELEVATER, section 4 and figure 5, has heads of one projection and two; turning the features is ours.
    """
    _check(heads)
    if projection is None or (heads == "1p" and not anchored):
        return train, test
    ahead = train @ projection, test @ projection
    complement = projection[:, :0] if heads == "2p" else _complement(projection)
    if complement.shape[1] == 0:
        return ahead
    behind = train @ complement
    # per dimension, both parts are of equal size: a projection's scale is arbitrary
    size = ahead[0].square().mean().sqrt() / behind.square().mean().sqrt().clamp_min(1e-12)
    return torch.cat([ahead[0], size * behind], 1), torch.cat([ahead[1], size * test @ complement], 1)


def padded_texts(weights: Float[Tensor, "k d"], projection: Float[Tensor, "b d"] | None, heads: str) -> Tensor:
    """Return class texts beside the anchored features of `projected_features`: 0 for what the projection leaves out.

    Example:
        >>> padded_texts(torch.ones(1, 2), torch.eye(3, 2), "1p").tolist()
        [[1.0, 1.0, 0.0]]
    """
    _check(heads)
    if heads == "2p" or projection is None:
        return weights
    return F.pad(weights, (0, _complement(projection).shape[1]))


def _check(heads: str) -> None:
    if heads not in ("1p", "2p"):
        raise ValueError(f"heads must be '1p' or '2p', got {heads!r}")


def _complement(projection: Float[Tensor, "b d"]) -> Float[Tensor, "b r"]:
    """An orthonormal basis of what a projection does not see."""
    u, sizes, _ = torch.linalg.svd(projection.double(), full_matrices=True)
    rank = int((sizes > sizes.max() * 1e-6).sum())
    basis: Tensor = u[:, rank:].to(projection)
    return basis
