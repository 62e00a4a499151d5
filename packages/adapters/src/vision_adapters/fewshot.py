"""Few-shot draws: episodes for prototypes, and ELEVATER's fixed subsets."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Int

Labels = Tensor | npt.NDArray[np.integer]


class Episode(NamedTuple):
    """One few-shot task: which samples are labelled, which are asked, and their classes 0 … ways - 1."""

    support: Int[Tensor, " s"]
    support_labels: Int[Tensor, " s"]
    query: Int[Tensor, " q"]
    query_labels: Int[Tensor, " q"]


class FewShot(NamedTuple):
    """A few-shot subset: sample indices in the order drawn, and their SHA-256 as comma-separated decimals."""

    indices: npt.NDArray[np.int64]
    sha256: str


def sample_episode(labels: Labels, *, ways: int, shots: int, queries: int, generator: torch.Generator) -> Episode:
    """Draw classes, then `shots` support and `queries` query samples of each, all distinct.

    Args:
        labels: the class of each sample, integers >= 0.
        ways: classes in the episode, >= 1.
        shots: support samples per class, >= 1.
        queries: query samples per class, >= 0.
        generator: a CPU generator, the only source of randomness.

    Returns:
        Indices into `labels` and the episode's own labels; class j is the j-th class drawn.

    Raises:
        ValueError: numbers below their least, or fewer than `ways` classes with `shots + queries` samples, shown.

    Example:
        >>> labels = torch.tensor([0, 0, 1, 1, 2, 2])
        >>> episode = sample_episode(labels, ways=2, shots=1, queries=1, generator=torch.Generator().manual_seed(0))
        >>> episode.support_labels.tolist(), episode.query_labels.tolist()
        ([0, 1], [0, 1])

    Source:
        GATE, few-shot tasks: 5-50 ways, 2-15 shots.
    """
    if ways < 1 or shots < 1 or queries < 0:
        raise ValueError(f"expected ways >= 1, shots >= 1, queries >= 0; got {ways=}, {shots=}, {queries=}")
    classes = torch.as_tensor(labels).long().cpu()
    needed = shots + queries
    counts = torch.bincount(classes) if len(classes) else torch.zeros(0, dtype=torch.long)
    able = (counts >= needed).nonzero().flatten()
    if len(able) < ways:
        raise ValueError(
            f"{ways} ways need as many classes with {needed} samples (shots + queries), but {len(able)} of "
            f"{int((counts > 0).sum())} classes have them"
        )
    chosen = able[torch.randperm(len(able), generator=generator)[:ways]]
    drawn = []
    for each in chosen:
        members = (classes == each).nonzero().flatten()
        drawn.append(members[torch.randperm(len(members), generator=generator)[:needed]])
    table = torch.stack(drawn)
    own = torch.arange(ways)
    return Episode(
        table[:, :shots].flatten(),
        own.repeat_interleave(shots),
        table[:, shots:].flatten(),
        own.repeat_interleave(queries),
    )


def elevater_indices(labels: Labels, shots: int, seed: int) -> FewShot:
    """ELEVATER's few-shot training subset, the same indices for everybody.

    `random.Random(seed)` shuffles the indices; in that order a sample is taken while its class has fewer than `shots`.

    Args:
        labels: the class of each training sample, integers 0 … k - 1, each class present.
        shots: samples per class, >= 1.
        seed: ELEVATER uses 0, 1 and 2.

    Returns:
        The indices in the order drawn, and their hash.

    Raises:
        ValueError: a class with fewer than `shots` samples (or none), with its number and count.

    Example:
        >>> elevater_indices(np.array([0, 0, 0, 1, 1, 1]), 1, 0).indices
        array([4, 2])

    Source:
        ELEVATER, section 3.3 (indices fixed by the seed); the rule is its toolkit's.
    """
    if shots < 1:
        raise ValueError(f"shots must be at least 1, got {shots}")
    classes = np.asarray(torch.as_tensor(labels).cpu()).astype(np.int64)
    if classes.ndim != 1 or len(classes) == 0:
        raise ValueError(f"labels must be a list of classes, got shape {classes.shape}")
    if classes.min() < 0:
        raise ValueError(f"label {classes.min()} is out of range, expected 0 or more")
    counts = np.bincount(classes)
    if counts.min() < shots:
        worst = int(counts.argmin())
        raise ValueError(f"class {worst} has {counts[worst]} samples, expected at least {shots}")
    order = list(range(len(classes)))
    random.Random(seed).shuffle(order)
    left = np.full(len(counts), shots)
    taken = []
    for index in order:
        if left[classes[index]] > 0:
            left[classes[index]] -= 1
            taken.append(index)
    digest = hashlib.sha256(",".join(map(str, taken)).encode()).hexdigest()
    return FewShot(np.array(taken, dtype=np.int64), digest)
