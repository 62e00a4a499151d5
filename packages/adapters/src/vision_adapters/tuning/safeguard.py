"""Whether images may move a head away from its texts where none are left to validate: one image per class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch.nn.functional as F

from vision_adapters.tuning.unit_features import cosines

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from vision_adapters.tuning.data import TuningData

DOUBT = 0.05
"""How unlikely so few hits must be, if the texts were half-way between chance and perfect, to give the texts up."""


class Evidence(NamedTuple):
    """What a few labelled images say of texts that have not seen them.

    `plain` and `centred` are shares of images that the texts name rightly: as they are, and after images and texts are
    each moved to a mean of 0.
    """

    plain: float
    centred: float
    images: int
    classes: int

    @property
    def gap(self) -> bool:
        """Whether centring helps by more than its standard error: what is off is common to all classes."""
        room = math.sqrt(max(self.plain * (1 - self.plain), 1 / self.images) / self.images)
        return self.centred - self.plain > room

    @property
    def worthless(self) -> bool:
        """Whether the texts are near chance, and too seldom right to be half-way good."""
        hits = round(self.plain * self.images)
        if hits * self.classes > 2 * self.images:
            return False
        good = 0.5 + 0.5 / self.classes
        tail = sum(math.comb(self.images, h) * good**h * (1 - good) ** (self.images - h) for h in range(hits + 1))
        return tail < DOUBT

    @property
    def may_move(self) -> bool:
        """Whether the images may move the head."""
        return self.gap or self.worthless


def evidence(data: TuningData, unit: Float[Tensor, "n d"]) -> Evidence:
    """Hits of the texts on the training images, which they have not seen."""
    assert data.class_embeddings is not None
    texts = F.normalize(data.class_embeddings, dim=1)
    moved = unit - unit.mean(0)
    centred = F.normalize(moved, dim=1) @ F.normalize(texts - texts.mean(0), dim=1).T
    return Evidence(_hits(cosines(data, unit), data.labels), _hits(centred, data.labels), len(unit), data.classes)


def _hits(scores: Tensor, labels: Tensor) -> float:
    return float((scores.argmax(1) == labels).float().mean())
