"""Few-shot draws: episodes for prototypes, and ELEVATER's fixed subsets."""

from __future__ import annotations

import hashlib
import random
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int
from torch import Tensor

Labels = Tensor | npt.NDArray[np.integer]
ShortClasses = Literal["refuse", "take"]
"""What happens to a class with fewer samples than shots: an error, or all of its samples are taken."""


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
    for label in chosen:
        members = (classes == label).nonzero().flatten()
        drawn.append(members[torch.randperm(len(members), generator=generator)[:needed]])
    table = torch.stack(drawn)
    own = torch.arange(ways)
    return Episode(
        table[:, :shots].flatten(),
        own.repeat_interleave(shots),
        table[:, shots:].flatten(),
        own.repeat_interleave(queries),
    )


def elevater_indices(labels: Labels, shots: int, seed: int, *, short_classes: ShortClasses = "refuse") -> FewShot:
    """ELEVATER's few-shot training subset, the same indices for everybody.

    `random.Random(seed)` shuffles the indices; in that order a sample is taken while its class has fewer than `shots`.
    With several labels per sample, one is taken while its rarest label has fewer than `shots`, and either that label
    has at most half of them or its commonest label at most 1.5 times them; samples without a label count as a class.

    Args:
        labels: the class of each training sample, integers 0 … k - 1, each class present; or 0/1 per sample and label.
        shots: samples per class, >= 1.
        seed: ELEVATER uses 0, 1 and 2.
        short_classes: "take" all samples of a class that has fewer, as ELEVATER's toolkit does, or "refuse" it.

    Raises:
        ValueError: a class with fewer than `shots` samples (or none) where these are refused; its number and count.

    Example:
        >>> elevater_indices(np.array([0, 0, 0, 1, 1, 1]), 1, 0).indices
        array([4, 2])

    Source:
        ELEVATER, section 3.3 (indices fixed by the seed); the rule is that of its toolkit's data library.
    """
    table = _checked(labels, shots, short_classes)
    order = list(range(len(table)))
    random.Random(seed).shuffle(order)
    if table.ndim == 2:
        return _few_shot(_several_labels(table, shots, order))
    missing = [shots] * (int(table.max()) + 1)
    rows = []
    for index in order:
        if missing[table[index]] > 0:
            missing[table[index]] -= 1
            rows.append(index)
    return _few_shot(rows)


def detection_indices(labels: Labels, shots: int, seed: int, *, short_classes: ShortClasses = "refuse") -> FewShot:
    """ELEVATER's few-shot training subset for detection: at least `shots` images that show each class.

    In the order of `random.Random(seed).shuffle`, an image is taken while any class that it shows has fewer than
    `shots`; it then counts for every class in it, however many boxes. Seed 0 keeps the order of the images. Labels are
    0/1 per image and class; the other arguments are those of `elevater_indices`.

    Example:
        >>> detection_indices(np.array([[1, 0], [1, 1], [0, 1], [1, 1]]), 1, 0).indices
        array([0, 1])

    Source:
        ELEVATER, section 3.3, footnote 2 (N-shot is at least N images per category); the order and the rule are
        GLIP's, whose detector ELEVATER fine-tunes.
    """
    table = _checked(labels, shots, short_classes)
    if table.ndim != 2:
        raise ValueError(f"detection labels must be 0/1 [images, classes], got shape {table.shape}")
    order = list(range(len(table)))
    if seed != 0:
        random.Random(seed).shuffle(order)
    missing = np.full(table.shape[1], shots)
    rows = []
    for index in order:
        own = np.flatnonzero(table[index])
        if (missing[own] > 0).any():
            missing[own] -= 1
            rows.append(index)
    return _few_shot(rows)


def _few_shot(rows: list[int]) -> FewShot:
    digest = hashlib.sha256(",".join(map(str, rows)).encode()).hexdigest()
    return FewShot(np.array(rows, dtype=np.int64), digest)


def _checked(labels: Labels, shots: int, short_classes: ShortClasses) -> npt.NDArray[np.integer]:
    """The labels as an array, each class with enough samples where that is asked for."""
    if short_classes not in ("refuse", "take"):
        raise ValueError(f"short_classes must be 'refuse' or 'take', got {short_classes!r}")
    if shots < 1:
        raise ValueError(f"shots must be at least 1, got {shots}")
    table = np.asarray(torch.as_tensor(labels).cpu())
    if table.ndim not in (1, 2) or len(table) == 0:
        raise ValueError(f"labels must be classes [n] or 0/1 [n, labels], got shape {table.shape}")
    if table.min() < 0 or (table.ndim == 2 and table.max() > 1):
        wrong = table.min() if table.min() < 0 else table.max()
        span = "0 or more" if table.ndim == 1 else "0 or 1"
        raise ValueError(f"label {wrong} is out of range, expected {span}")
    if short_classes == "take":
        return table
    counts = np.bincount(table.astype(np.int64)) if table.ndim == 1 else table.astype(np.int64).sum(0)
    if counts.min() < shots:
        worst = int(counts.argmin())
        raise ValueError(f"class {worst} has {counts[worst]} samples, expected at least {shots}")
    return table


def _several_labels(table: npt.NDArray[np.integer], shots: int, order: list[int]) -> list[int]:
    """Take each sample that fills a label without overfilling another, until every label is full."""
    counts = np.zeros(table.shape[1], dtype=np.int64)
    unlabelled = 0
    rows = []
    for index in order:
        own = np.flatnonzero(table[index])
        if len(own) == 0:
            if unlabelled < shots:
                unlabelled += 1
                rows.append(index)
            continue
        rarest, commonest = counts[own].min(), counts[own].max()
        if rarest < shots and (rarest <= shots / 2 or commonest <= 1.5 * shots):
            counts[own] += 1
            rows.append(index)
        if counts.min() >= shots:
            break
    return rows
