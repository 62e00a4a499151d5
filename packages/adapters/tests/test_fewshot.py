from __future__ import annotations

import hashlib
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vision_adapters.fewshot import (
    Episode,
    detection_indices,
    elevater_indices,
    episode_indices,
    gate_episodes,
    sample_episode,
)
from vision_adapters.training import Recipe
from wary_files.errors import UsageError


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 3), st.integers(0, 999))
def test_episodes(ways: int, shots: int, queries: int, seed: int) -> None:
    labels = torch.randint(0, 9, (200,), generator=torch.Generator().manual_seed(seed))

    def make() -> Episode:
        generator = torch.Generator().manual_seed(seed)
        return sample_episode(labels, ways=ways, shots=shots, queries=queries, generator=generator)

    episode = make()
    assert episode.support.shape == (ways * shots,)
    assert episode.query.shape == (ways * queries,)
    everything = torch.cat([episode.support, episode.query]).tolist()
    assert len(set(everything)) == len(everything)
    real = {int(c): {int(labels[i]) for i in episode.support[episode.support_labels == c]} for c in range(ways)}
    assert all(len(each) == 1 for each in real.values())
    assert len(set.union(*real.values())) == ways
    for index, own in zip(episode.query, episode.query_labels, strict=True):
        assert {int(labels[index])} == real[int(own)]
    assert all(torch.equal(a, b) for a, b in zip(episode, make(), strict=True))


def test_episodes_draw_every_class_and_refuse_too_few() -> None:
    labels = torch.arange(40) % 8
    generator = torch.Generator().manual_seed(0)
    drawn = {
        int(labels[sample_episode(labels, ways=1, shots=1, queries=0, generator=generator).support[0]])
        for _ in range(200)
    }
    assert drawn == set(range(8))
    with pytest.raises(ValueError, match=r"9 ways need as many classes with 2 samples .* but 8 of 8"):
        sample_episode(labels, ways=9, shots=1, queries=1, generator=generator)
    with pytest.raises(ValueError, match="but 0 of 8"):
        sample_episode(labels, ways=2, shots=5, queries=1, generator=generator)


def by_the_toolkits_rule(labels: list[int], shots: int, seed: int) -> list[int]:
    order = list(range(len(labels)))
    random.Random(seed).shuffle(order)
    indices: list[int] = []
    for index in order:
        if sum(labels[other] == labels[index] for other in indices) < shots:
            indices.append(index)
    return indices


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("shots", [1, 2, 5, 20])
@pytest.mark.parametrize("classes", [2, 7])
def test_elevater_indices(seed: int, shots: int, classes: int) -> None:
    labels = np.random.default_rng(classes).integers(0, classes, 300)
    got = elevater_indices(labels, shots, seed)
    expected = by_the_toolkits_rule(labels.tolist(), shots, seed)
    assert got.indices.tolist() == expected
    assert got.sha256 == hashlib.sha256(",".join(map(str, expected)).encode()).hexdigest()
    assert (np.bincount(labels[got.indices]) == shots).all()
    assert elevater_indices(torch.tensor(labels), shots, seed).sha256 == got.sha256


def test_elevater_indices_of_several_labels() -> None:
    """By hand: 0 fills both labels half, 1 adds to the first, and so on, in an order that the seed gives."""
    table = np.array([[1, 1], [1, 0], [0, 0], [0, 1], [1, 0], [0, 0], [1, 1]])
    order = list(range(7))
    random.Random(5).shuffle(order)
    counts, empty, expected = [0, 0], 0, []
    for i in order:
        own = [j for j in (0, 1) if table[i, j]]
        if not own:
            if empty < 2:
                empty += 1
                expected.append(i)
            continue
        now = [counts[j] for j in own]
        if min(now) < 2 and (min(now) <= 1 or max(now) <= 3):
            expected.append(i)
            for j in own:
                counts[j] += 1
        if min(counts) >= 2:
            break
    assert elevater_indices(table, 2, 5).indices.tolist() == expected
    with pytest.raises(ValueError, match="label 2 is out of range, expected 0 or 1"):
        elevater_indices(table * 2, 1, 0)


@pytest.mark.parametrize("shots", [3, 40, 1000])
def test_classes_with_fewer_samples_give_all_of_them(shots: int) -> None:
    """By the same rules in words; a class without samples is no error either."""
    labels = np.concatenate([np.zeros(30), np.ones(2), np.full(9, 3)]).astype(np.int64)
    got = elevater_indices(labels, shots, 1, short_classes="take")
    assert got.indices.tolist() == by_the_toolkits_rule(labels.tolist(), shots, 1)
    assert np.bincount(labels[got.indices]).tolist() == [min(shots, count) for count in (30, 2, 0, 9)]
    table = (np.random.default_rng(3).random((60, 4)) < [0.5, 0.03, 0, 0.3]).astype(int)
    images = detection_indices(table, shots, 1, short_classes="take").indices
    assert (table[images].sum(0) >= np.minimum(shots, table.sum(0))).all()
    assert len(set(images.tolist())) == len(images)
    with pytest.raises(ValueError, match="short_classes must be 'refuse' or 'take', got 'all'"):
        elevater_indices(labels, shots, 1, short_classes="all")  # type: ignore[arg-type]


def test_elevater_refuses() -> None:
    with pytest.raises(ValueError, match="class 1 has 1 samples, expected at least 2"):
        elevater_indices(np.array([0, 0, 1]), 2, 0)
    with pytest.raises(ValueError, match="class 1 has 0 samples"):
        elevater_indices(np.array([0, 0, 2]), 1, 0)
    with pytest.raises(ValueError, match="label -1"):
        elevater_indices(np.array([0, -1]), 1, 0)
    with pytest.raises(ValueError, match="shots must be at least 1, got 0"):
        elevater_indices(np.array([0, 0]), 0, 0)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("shots", [1, 3, 5, 10])
def test_detection_indices(seed: int, shots: int) -> None:
    """By the rule in words: go through the images, take one that shows a class seen fewer than N times so far."""
    table = (np.random.default_rng(7).random((150, 5)) < [0.5, 0.2, 0.1, 0.3, 0.15]).astype(int)
    order = list(range(150))
    if seed:
        random.Random(seed).shuffle(order)
    indices: list[int] = []
    for image in order:
        shown = [c for c in range(5) if table[image, c]]
        if any(sum(table[other, c] for other in indices) < shots for c in shown):
            indices.append(image)
    got = detection_indices(table, shots, seed)
    assert got.indices.tolist() == indices
    assert got.sha256 == hashlib.sha256(",".join(map(str, indices)).encode()).hexdigest()
    assert (table[got.indices].sum(0) >= shots).all()


def test_detection_refuses() -> None:
    with pytest.raises(ValueError, match=r"got shape \(3,\)"):
        detection_indices(np.array([0, 1, 1]), 1, 0)
    with pytest.raises(ValueError, match="class 1 has 1 samples, expected at least 2"):
        detection_indices(np.array([[1, 0], [1, 1]]), 2, 0)


def test_half_a_label_and_one_below_0_are_refused() -> None:
    """0.5 was class 0."""
    generator = torch.Generator().manual_seed(0)
    halves = np.array([0.0, 0.0, 0.5, 1.0, 1.0])
    with pytest.raises(ValueError, match=r"label 0\.5 is no whole number"):
        sample_episode(halves, ways=2, shots=1, queries=1, generator=generator)
    with pytest.raises(ValueError, match=r"label 0\.5 is no whole number"):
        elevater_indices(halves, 1, 0)
    with pytest.raises(ValueError, match=r"labels of shape \(3,\) from -1; expected classes \[n\] from 0"):
        sample_episode(np.array([-1, 0, 1]), ways=1, shots=1, queries=0, generator=generator)
    whole = np.array([0, 0, 1, 1])
    assert elevater_indices(whole.astype(float), 1, 0).sha256 == elevater_indices(whole, 1, 0).sha256


@pytest.mark.parametrize("dtype", [">i8", "uint16", "uint8", "bool", "float32"])
def test_labels_of_any_type_draw_the_same(dtype: str) -> None:
    labels = np.array([0, 0, 0, 1, 1, 1])
    episodes = [
        sample_episode(kind, ways=2, shots=1, queries=1, generator=torch.Generator().manual_seed(0))
        for kind in (labels, labels.astype(dtype))
    ]
    assert all(torch.equal(first, other) for first, other in zip(*episodes, strict=True))
    assert elevater_indices(labels.astype(dtype), 2, 1).sha256 == elevater_indices(labels, 2, 1).sha256


def test_many_episodes_are_those_of_one_generator() -> None:
    labels = torch.arange(60) % 6
    drawn = episode_indices(labels, ways=3, shots=2, queries=4, count=5, seed=3)
    assert drawn.shape == (5, 3, 6)
    generator = torch.Generator().manual_seed(3)
    for rows in drawn:
        episode = sample_episode(labels, ways=3, shots=2, queries=4, generator=generator)
        assert torch.equal(rows[:, :2].flatten(), episode.support)
        assert torch.equal(rows[:, 2:].flatten(), episode.query)
    assert torch.equal(drawn[:2], episode_indices(labels, ways=3, shots=2, queries=4, count=2, seed=3))


def gates_episode(sizes: list[int], low: int, high: int, rng: np.random.RandomState) -> tuple[int, dict[int, int]]:
    """Queries of each draw, and shots by class, by GATE's rule in its own order."""
    choice = rng.choice(range(low, high + 1))
    chosen = rng.choice(len(sizes), size=min(choice, len(sizes)))
    queries = min(max(int(np.floor(min(sizes[label] for label in chosen) * 0.5)), 1), 5)
    support, shots = 0, dict[int, int]()
    for position, label in enumerate(chosen.tolist()):
        left = 250 - support - (len(chosen) - position)
        allowed = range(2, min(sizes[label], left, 50) - queries)
        if len(allowed):
            more = int(rng.choice(allowed))
            shots[label] = shots.get(label, 0) + more
            support += more
    return queries, shots


@pytest.mark.parametrize(("classes", "high"), [(7, 49), (15, 9), (30, 49), (200, 49)])
def test_gates_episodes_have_its_ways_and_shots(classes: int, high: int) -> None:
    """Over many episodes, the same numbers of different classes, shots and queries as GATE's rule draws."""
    count, size = 400, 100
    targets = torch.arange(classes).repeat_interleave(size)
    ours = gate_episodes(targets, low=5, high=high, count=count, seed=7)
    rules = [gates_episode([size] * classes, 5, high, np.random.RandomState(number)) for number in range(count)]
    counts = np.array([len(shots) for _, shots in rules], dtype=float)
    support = np.array([sum(shots.values()) for _, shots in rules], dtype=float)
    for mine, theirs in ((ours.ways.numpy(), counts), (ours.shots.sum(dim=(1, 2)).numpy(), support)):
        error = np.sqrt(mine.var() / count + theirs.var() / count)
        assert abs(mine.mean() - theirs.mean()) < 4 * error + 1e-9
    by_class = ours.shots.sum(dim=2)
    assert int(by_class[by_class > 0].min()) == min(min(shots.values()) for _, shots in rules) == 2


def test_gates_episodes_hold_no_sample_twice() -> None:
    for size, classes in ((30, 60), (5, 6)):
        targets = torch.arange(classes).repeat_interleave(size)
        episodes = gate_episodes(targets, low=5, high=49, count=40, seed=7)
        for index, shots, queries in zip(*episodes, strict=True):
            present = shots.any(dim=1)
            assert torch.equal(present, queries.any(dim=1))
            assert int(shots.sum()) <= 250
            assert int(shots.sum(dim=1)[present].min()) >= 2
            used = index[shots | queries]
            assert len(used.unique()) == len(used)
            used_in = zip(index[present], (shots | queries)[present], strict=True)
            labels = [set(targets[row[keep]].tolist()) for row, keep in used_in]
            assert all(len(label) == 1 for label in labels)
            assert len(set.union(*labels)) == len(labels)
        again = gate_episodes(targets, low=5, high=49, count=3, seed=7)
        assert torch.equal(again.ways, episodes.ways[:3])
    with pytest.raises(ValueError, match="5 ways or more need 5 classes with 5 samples, but 0 of 30 classes have them"):
        gate_episodes(torch.arange(30), low=5, high=49, count=1, seed=0)
    with pytest.raises(ValueError, match="low=9, high=5"):
        gate_episodes(torch.arange(60) % 3, low=9, high=5, count=1, seed=0)


def test_numbers_of_shots_and_steps_that_are_not_whole_are_refused() -> None:
    """Of 2.5 shots there were draws."""
    with pytest.raises(UsageError, match=r"shots is 2\.5; expected a whole number"):
        elevater_indices(np.arange(20) % 3, 2.5, 0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"steps is 2\.5; expected a whole number"):
        Recipe(lr=0.1, steps=2.5, batch_size=4, validate_every=2)  # type: ignore[arg-type]
