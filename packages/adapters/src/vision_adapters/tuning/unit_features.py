"""Features at unit length: standardised, compared with class texts, and their means."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

if TYPE_CHECKING:
    from vision_adapters.tuning.data import TuningData


PRIOR = 10


class Standardisation(NamedTuple):
    """Features with each dimension centred and scaled, so that rows have a mean squared length of 1."""

    centre: Float[Tensor, " d"]
    scale: Float[Tensor, " d"]

    def __call__(self, unit: Float[Tensor, "n d"]) -> Float[Tensor, "n d+1"]:
        """The features with a column of ones, for the bias."""
        moved = (unit - self.centre) * self.scale
        return torch.cat([moved, moved.new_ones(len(moved), 1)], dim=1)


def standardisation(unit: Float[Tensor, "n d"], *, spread: bool = True) -> Standardisation:
    """Centre and scales of the training features."""
    centre = unit.mean(0)
    variance = (unit - centre).square().mean(0)
    variance = (len(unit) * variance + PRIOR * variance.mean()) / (len(unit) + PRIOR)
    if not spread:
        variance = torch.full_like(variance, float(variance.mean()))
    if float(variance.max()) <= 1e-14 * float(unit.square().sum(1).mean()):
        return Standardisation(centre, torch.ones_like(variance))
    return Standardisation(centre, (variance * unit.shape[1]).rsqrt())


def cosines(data: TuningData, unit: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
    """Products of features with the class texts at length 1: cosines for features of length 1; 0 without texts."""
    if data.class_embeddings is None:
        return unit.new_zeros(len(unit), data.classes)
    return unit @ F.normalize(data.class_embeddings, dim=1).T


def class_means(features: Float[Tensor, "n d"], member: Float[Tensor, "n k"]) -> Float[Tensor, "k d"]:
    """The mean of each class's features; that of all for a class without images."""
    counts = member.sum(0)
    means: Tensor = (member.T @ features) / counts.clamp_min(1)[:, None]
    means[counts == 0] = features.mean(0)
    return means
