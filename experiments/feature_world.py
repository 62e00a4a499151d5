"""Made-up features of images and class texts: groups of classes, and images that lie in another class of their group.

Images and texts each have a mean of their own, as a dual encoder's have, in 512 dimensions. "frequent" draws classes by
Zipf's law, "shifted" has long axes and texts far off, so that zero-shot is poor.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

WORLDS: dict[str, dict[str, Any]] = {"plain": {}, "frequent": {"zipf": True}, "shifted": {"long": 0.6, "off": 0.3}}
AS_CLIP: dict[str, Any] = {"near": 0.4}
"""Cosines of images with texts are near 0.3 for their own class and 0.2 for others, as CLIP's; without it 0.1 and 0."""


def world(
    seed: int,
    *,
    zipf: bool = False,
    long: float = 0.3,
    off: float = 0.25,
    near: float = 0.0,
    classes: int = 100,
    count: int = 20_000,
) -> list[Tensor]:
    """Return features, labels and texts; a fifth of the images lies in another class of its group.

    `near` is the cosine of the texts' mean with that of the images.
    """
    generator = torch.Generator().manual_seed(seed)
    scales = torch.arange(1, 513).float() ** -long
    scales = scales / scales.norm()
    draw = lambda *shape: torch.randn(*shape, generator=generator) * scales  # noqa: E731
    groups = max(classes // 5, 1)
    group = torch.arange(classes) % groups
    centres = 0.5 * (math.sqrt(0.5) * draw(groups, 512)[group] + math.sqrt(0.5) * draw(classes, 512))
    parts = 0.4 * draw(classes, 6, 512)
    frequency = 1 / torch.arange(1, classes + 1).float() if zipf else torch.ones(classes)
    labels = torch.multinomial(frequency, count, replacement=True, generator=generator)
    moved = (labels + groups * torch.randint(1, 5, (count,), generator=generator)) % classes
    place = torch.where(torch.rand(count, generator=generator) < 0.2, moved, labels)
    part = parts[place, torch.randint(6, (count,), generator=generator)]
    widths = (0.7 + 0.6 * torch.rand(classes, generator=generator))[labels, None]
    of_images = F.normalize(draw(512), dim=0)
    images = of_images + centres[place] + part + 0.7 * widths * draw(count, 512)
    of_texts = near * of_images + math.sqrt(1 - near**2) * F.normalize(draw(512), dim=0)
    texts = of_texts + centres + off * draw(classes, 512)
    return [F.normalize(images, dim=1), labels, F.normalize(texts, dim=1)]
