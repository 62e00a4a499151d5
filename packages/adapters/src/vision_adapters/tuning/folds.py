"""Which samples are trained on and which validate."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

Split = Literal["auto", "toolkit", "shuffled", "folds"]
SPLITS = ("auto", "toolkit", "shuffled", "folds")
FOLDS = 5
PLENTY = 1000
"""Images of which one fifth is enough to choose by; of fewer, every one validates in its turn."""
SHARE = 0.2


class Fold(NamedTuple):
    """Indices to train on, and to validate on.

    Example:
        >>> Fold(train=torch.tensor([0, 1, 2]), validation=torch.tensor([3])).validation.tolist()
        [3]
    """

    train: Tensor
    validation: Tensor


def make_folds(labels: Tensor, split: Split, seed: int, features: Tensor | None = None) -> tuple[Fold, ...]:
    """Indices to train and to validate on; `split` and `seed` are those of `tuning_data`.

    With ``features`` [n, d] a draw goes by what the samples are: the same samples in another order, or with turned
    axes, are divided alike. ELEVATER's split goes by their order.

    Raises:
        ValueError: a class with too few images for the rule, with its number.

    Example:
        >>> folds = make_folds(torch.arange(2).repeat(10), "folds", 0)
        >>> len(folds), sum(len(fold.validation) for fold in folds)
        (5, 20)
    """
    counts = torch.bincount(labels) if labels.ndim == 1 else labels.sum(0).long()
    least, poorest = int(counts.min()), int(counts.argmin())
    if split == "auto":
        split = "shuffled" if least >= FOLDS and len(labels) >= PLENTY else "folds"
    if least < 2 and split != "folds":
        raise ValueError(
            f"class {poorest} has {least} image: nothing is left to validate on; give more images, a validation set, "
            "or validation='folds'"
        )
    if labels.ndim == 2 and split == "toolkit":
        return (_toolkit_several(labels),)
    kinds = labels.numpy() if labels.ndim == 1 else _rarest_label(labels, counts)
    if split == "folds":
        numbers = class_folds(torch.from_numpy(kinds), FOLDS, seed, features)
        parts = [
            Fold((numbers != fold).nonzero().flatten(), (numbers == fold).nonzero().flatten()) for fold in range(FOLDS)
        ]
        return tuple(part for part in parts if len(part.train) and len(part.validation))
    ranks = _ranks(kinds, None if split == "toolkit" else seed, features)
    size = np.array([math.ceil(round(int(count) * SHARE, 9)) for count in np.bincount(kinds)])
    held = torch.from_numpy(ranks < size[kinds])
    return (Fold((~held).nonzero().flatten(), held.nonzero().flatten()),)


def class_folds(labels: Tensor, folds: int, seed: int, features: Tensor | None = None) -> Tensor:
    """The fold of each sample: as many of each class in each as that goes, drawn with the seed.

    Each class starts at another fold, so that single images spread over the folds. With ``features`` [n, d] the draw
    does not depend on the order of samples.
    """
    kinds = labels.numpy()
    return torch.from_numpy((_ranks(kinds, seed, features) + kinds) % folds)


def _ranks(kinds: Any, seed: int | None, features: Tensor | None = None) -> Any:
    """The rank of each sample within its class, in an order drawn with a seed, or in its own."""
    order = np.arange(len(kinds))
    if seed is not None:
        drawn = np.random.default_rng(seed).permutation(len(kinds))
        order = drawn if features is None else by_content(features, kinds)[drawn]
    ranks = np.empty(len(kinds), dtype=np.int64)
    counts: dict[int, int] = {}
    for index in order:
        kind = int(kinds[index])
        ranks[index] = counts.get(kind, 0)
        counts[kind] = ranks[index] + 1
    return ranks


_ROUNDED = 1e-9
"""Share of a distance below which two are equal: sums in another order differ by less."""
_AT_ONCE = 65_536
"""Rows whose double copies are held at a time."""


def by_content(features: Tensor, kinds: Any) -> Any:
    """An order of samples that does not depend on the one in which they come, nor on the axes of their features.

    They are sorted by their distance to the mean of all, then by class, then by a fixed projection, which axes change.
    """
    mean = features.mean(0, dtype=torch.float64)
    way = torch.randn(features.shape[1], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    distances, projected = np.empty(len(features)), np.empty(len(features))
    for start in range(0, len(features), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        rows = features[part].double() - mean
        distances[part], projected[part] = rows.norm(dim=1).numpy(), (rows @ way).numpy()
    scale = max(float(distances.max()), 1e-300) * _ROUNDED
    return np.lexsort((projected, kinds, np.round(distances / scale)))


def _toolkit_several(labels: Tensor) -> Fold:
    """The toolkit's greedy split of samples with several labels: the first sample of each label still lacking some."""
    unheld = labels.clone()
    missing = torch.ceil(labels.sum(0).double() * SHARE)
    held: list[int] = []
    while bool((missing > 0).any()):
        label = int((missing > 0).nonzero()[0])
        index = int((unheld[:, label] > 0).nonzero()[0])
        held.append(index)
        missing -= unheld[index]
        unheld[index] = 0
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    chosen[held] = True
    return Fold((~chosen).nonzero().flatten(), torch.tensor(held))


def _rarest_label(labels: Tensor, counts: Tensor) -> Any:
    """The rarest label of each sample, k for a sample without one."""
    rarity = torch.where(labels > 0, counts[None].expand_as(labels), torch.iinfo(torch.int64).max)
    rarest = rarity.argmin(1)
    rarest[labels.sum(1) == 0] = labels.shape[1]
    return rarest.numpy()
