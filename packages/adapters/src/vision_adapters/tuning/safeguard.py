"""Whether images may move a head away from its texts where none are left to validate: one image per class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vision_adapters.tuning.unit_features import cosines

if TYPE_CHECKING:
    from vision_adapters.tuning.data import TuningData


DOUBT = 0.05
"""How unlikely so few hits must be, if the texts were half-way between chance and perfect, to give the texts up."""


def may_move(data: TuningData, unit: Float[Tensor, "n d"]) -> bool:
    """Whether the images, which the texts have not seen, speak for moving the head."""
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
