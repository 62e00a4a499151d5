"""Few-shot draws: episodes for prototypes, and ELEVATER's fixed subsets."""

from __future__ import annotations

import hashlib
import random
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from paired_scores.metrics.arrays import refuse_masked
from vision_adapters.losses import IGNORED
from wary_files.errors import whole_numbers

Labels = Tensor | npt.NDArray[np.integer]
ShortClasses = Literal["refuse", "take"]
"""What happens to a class with fewer samples than shots: an error, or all of its samples are taken."""


QUERIES, LEAST_SHOTS, MOST_SUPPORT = 5, 2, 250
"""Of GATE's episodes: queries of a class, shots of a class at least, shots of an episode at most."""
MOST_OF_A_CLASS = 50
"""Shots and queries that one draw of a class takes stay below it."""
LEAST_SAMPLES = 5
"""Of a class that is drawn."""


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
    classes = _whole(labels)
    if classes.ndim != 1 or (len(classes) and int(classes.min()) < 0):
        least = int(classes.min()) if classes.numel() else 0
        raise ValueError(f"labels of shape {tuple(classes.shape)} from {least}; expected classes [n] from 0")
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


def episode_indices(
    labels: Labels, *, ways: int, shots: int, queries: int, count: int, seed: int
) -> Int[Tensor, "e w m"]:
    """Draw many episodes of equal size by `sample_episode`, one after another from one generator.

    Args:
        labels: the class of each sample, integers >= 0, ``[n]``.
        ways: classes in an episode.
        shots: support samples per class.
        queries: query samples per class.
        count: episodes.
        seed: of the generator; the first episodes are the same for any count.

    Returns:
        Sample indices: for each class its shots, then its queries.

    Raises:
        ValueError: no episode, or fewer classes than `ways` with shots + queries samples; the message has their number.

    Example:
        >>> episode_indices(torch.tensor([0, 0, 1, 1]), ways=2, shots=1, queries=1, count=3, seed=0).shape
        torch.Size([3, 2, 2])
    """
    if count < 1:
        raise ValueError(f"expected count >= 1; got {count=}")
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(count):
        drawn = sample_episode(labels, ways=ways, shots=shots, queries=queries, generator=generator)
        support, query = drawn.support.view(ways, shots), drawn.query.view(ways, queries)
        rows.append(torch.cat([support, query], dim=1))
    return torch.stack(rows)


class Episodes(NamedTuple):
    """Episodes of different sizes, padded: sample indices, shots first, and which places of a class are there.

    Of e episodes with at most w classes of at most m samples each; a place that is not there has index 0.
    """

    samples: Int[Tensor, "e w m"]
    shots: Bool[Tensor, "e w m"]
    query: Bool[Tensor, "e w m"]

    @property
    def ways(self) -> Int[Tensor, " e"]:
        """Classes in each episode."""
        return self.query.any(dim=2).sum(dim=1)

    @property
    def answers(self) -> Int[Tensor, "e wm"]:
        """The class of each place that is a query, -100 elsewhere."""
        own = torch.arange(self.query.shape[1])[None, :, None].expand_as(self.query)
        return torch.where(self.query, own, IGNORED).flatten(1)


def gate_episodes(labels: Labels, *, low: int, high: int, count: int, seed: int) -> Episodes:
    """Draw episodes as GATE does, but no sample twice in one.

    Ways are uniform from ``low`` to ``high``, cut to the number of classes; that many classes are drawn with
    replacement. Queries are 5 for each, or half of the smallest class drawn. Shots are uniform from 2 to below
    ``min(samples, room, 50) - queries``, where ``room`` is what a support set of 250 leaves when every class to come
    takes one; a class without room for 2 is left out. A class that is drawn again adds its shots and queries to those
    that it has, as far as its samples reach.

    Args:
        labels: the class of each sample, integers >= 0, ``[n]``.
        low: the fewest ways.
        high: the most ways.
        count: episodes.
        seed: each episode has a generator of this seed and its own number.

    Raises:
        ValueError: numbers out of range, or fewer than ``low`` classes with 5 samples; the message has their number.

    Example:
        >>> episodes = gate_episodes(torch.arange(60) % 6, low=2, high=4, count=3, seed=0)
        >>> episodes.samples.shape[0], episodes.ways.tolist()
        (3, [2, 2, 3])

    Source:
        GATE's released few-shot sets. A class drawn twice is drawn from all of its samples there, so that one can be
        shot and query at once.
    """
    if not 1 <= low <= high or count < 1:
        raise ValueError(f"expected 1 <= low <= high and count >= 1; got {low=}, {high=}, {count=}")
    classes = _whole(labels)
    members = [torch.nonzero(classes == label).flatten().numpy() for label in torch.unique(classes)]
    able = [own for own in members if len(own) >= LEAST_SAMPLES]
    if len(able) < low:
        raise ValueError(
            f"{low} ways or more need {low} classes with {LEAST_SAMPLES} samples, but {len(able)} of {len(members)} "
            "classes have them"
        )
    return _padded([_gate_episode(able, low, high, np.random.default_rng((seed, number))) for number in range(count)])


def _gate_episode(
    members: list[np.ndarray], low: int, high: int, rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Shots and queries of each class of one episode, in the order in which classes were drawn."""
    ways = min(int(rng.integers(low, high + 1)), len(members))
    drawn = rng.integers(0, len(members), ways)
    queries = min(QUERIES, min(len(members[label]) for label in drawn) // 2)
    counts: dict[int, list[int]] = {}
    support = 0
    for position, label in enumerate(drawn.tolist()):
        room = MOST_SUPPORT - support - (ways - position)
        end = min(len(members[label]), room, MOST_OF_A_CLASS) - queries
        if end <= LEAST_SHOTS:
            continue
        shots = int(rng.integers(LEAST_SHOTS, end))
        support += shots
        sizes = counts.setdefault(label, [0, 0])
        sizes[0] += shots
        sizes[1] += queries
    episode = []
    for label, (shots, queries_of) in counts.items():
        own = rng.permutation(members[label])
        queries_of = min(queries_of, len(own) // 2)
        shots = min(shots, len(own) - queries_of)
        episode.append((own[:shots], own[shots : shots + queries_of]))
    return episode


def _padded(drawn: list[list[tuple[np.ndarray, np.ndarray]]]) -> Episodes:
    wide = max(len(episode) for episode in drawn)
    long = max(len(shots) + len(query) for episode in drawn for shots, query in episode)
    index = torch.zeros(len(drawn), wide, long, dtype=torch.long)
    shots, query = (torch.zeros(len(drawn), wide, long, dtype=torch.bool) for _ in range(2))
    for row, episode in enumerate(drawn):
        for class_index, (first, second) in enumerate(episode):
            index[row, class_index, : len(first)] = torch.from_numpy(first)
            index[row, class_index, len(first) : len(first) + len(second)] = torch.from_numpy(second)
            shots[row, class_index, : len(first)] = True
            query[row, class_index, len(first) : len(first) + len(second)] = True
    return Episodes(index, shots, query)


@whole_numbers("shots", "seed")
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


@whole_numbers("shots", "seed")
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


def _whole(labels: Labels) -> Tensor:
    """Labels as whole numbers, on the CPU; 0.5 is no class."""
    refuse_masked(labels, "labels")
    array = labels.detach().cpu() if isinstance(labels, Tensor) else np.asarray(labels)
    if isinstance(array, np.ndarray) and array.dtype.kind in "iub":  # torch has no other order of bytes
        array = array.astype(np.int64)
    values = torch.as_tensor(array)
    whole = values.long()
    if values.is_floating_point() and bool((whole != values).any()):
        raise ValueError(f"label {values[whole != values][0].item()} is no whole number")
    return whole


def _few_shot(rows: list[int]) -> FewShot:
    digest = hashlib.sha256(",".join(map(str, rows)).encode()).hexdigest()
    return FewShot(np.array(rows, dtype=np.int64), digest)


def _checked(labels: Labels, shots: int, short_classes: ShortClasses) -> npt.NDArray[np.integer]:
    """The labels as an array, each class with enough samples where that is asked for."""
    if short_classes not in ("refuse", "take"):
        raise ValueError(f"short_classes must be 'refuse' or 'take', got {short_classes!r}")
    if shots < 1:
        raise ValueError(f"shots must be at least 1, got {shots}")
    table = _whole(labels).numpy()
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
