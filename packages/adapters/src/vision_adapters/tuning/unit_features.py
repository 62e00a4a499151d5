"""Features at unit length: standardised, compared with class texts, their means, and whether they may move a head."""

from __future__ import annotations

import math
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


def class_means(
    features: Float[Tensor, "n d"], member: Float[Tensor, "n k"], weights: Float[Tensor, " n"] | None = None
) -> Float[Tensor, "k d"]:
    """The (weighted) mean of each class's features; that of all for a class without images."""
    if weights is not None:
        member = member * weights[:, None]
    counts = member.sum(0)
    means: Tensor = (member.T @ features) / counts.where(counts > 0, 1)[:, None]
    means[counts == 0] = features.mean(0)
    return means


DOUBT = 0.05
"""How unlikely so few hits must be, if the texts were half-way between chance and perfect, to give the texts up."""


def may_move(data: TuningData, unit: Float[Tensor, "n d"]) -> bool:
    """Whether images that the texts have not seen speak for moving the head, where none are left to validate on."""
    assert data.class_embeddings is not None
    texts = F.normalize(data.class_embeddings, dim=1)
    moved = F.normalize(unit - unit.mean(0), dim=1)
    plain = _hits(cosines(data, unit), data.labels)
    centred = _hits(moved @ F.normalize(texts - texts.mean(0), dim=1).T, data.labels)
    return is_shifted(plain, centred, len(unit)) or is_worthless(plain, len(unit), data.classes)


def is_shifted(plain: float, centred: float, images: int) -> bool:
    """Whether moving images and texts to a mean of 0 makes hits more frequent by more than their standard error.

    What is off is then common to all classes.
    """
    return centred - plain > math.sqrt(max(plain * (1 - plain), 1 / images) / images)


def is_worthless(plain: float, images: int, classes: int) -> bool:
    """Whether the texts are near chance, and too seldom right to be half-way good."""
    hits = round(plain * images)
    if hits * classes > 2 * images:
        return False
    good = 0.5 + 0.5 / classes
    tail = sum(math.comb(images, h) * good**h * (1 - good) ** (images - h) for h in range(hits + 1))
    return tail < DOUBT


def _hits(scores: Tensor, labels: Tensor) -> float:
    return float((scores.argmax(1) == labels).float().mean())
