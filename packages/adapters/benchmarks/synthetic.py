"""Cached features of a make-believe dual encoder: classes on a sphere, images and texts scattered around them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Features(NamedTuple):
    """Training and test features with labels, and one text embedding per class."""

    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor
    texts: Tensor


def make(
    samples: int, dim: int, classes: int, seed: int, *, noise: float = 1.0, text_noise: float = 1.0, test: int = 2000
) -> Features:
    """Draw features whose classes overlap, with the narrow cone and the modality gap of contrastive encoders.

    Args:
        samples: training samples, the same number of each class up to one.
        dim: features.
        classes: classes.
        seed: of every draw.
        noise: length of an image's deviation relative to the class centre's.
        text_noise: the same for the texts.
        test: test samples.

    Returns:
        The features, as an encoder would give them (not normalised).
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    decay = (torch.arange(dim) + 4.0) ** -0.25  # nuisance lies in some directions more than in others
    decay = decay / decay.square().mean().sqrt()
    centres, gap = draw(classes, dim), 2.0 * draw(dim)
    labels = [torch.arange(count) % classes for count in (samples, test)]
    images = [centres[y] + noise * decay * draw(len(y), dim) + gap for y in labels]
    texts = centres + text_noise * draw(classes, dim) - gap
    return Features(images[0], labels[0], images[1], labels[1], texts)
