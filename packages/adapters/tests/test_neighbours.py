"""Neighbours, retrieval and clusters against slow definitions and scikit-learn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from sklearn.neighbors import KNeighborsClassifier

from vision_adapters.clusters import AGREEMENTS, agreement, cluster, matched_clusters
from vision_adapters.neighbours import choose_neighbours, neighbour_votes, rank_gallery


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 30), st.integers(1, 6), st.integers(0, 999))
def test_ranking_is_its_definition(n: int, classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, labels = rng.normal(size=(n, 3)).astype(np.float32), rng.integers(0, classes, n)
    if len(np.unique(labels)) == n:
        labels[1] = labels[0]
    ranking = rank_gallery(rows, rows, labels, labels, ks=(1, 3), same=True)
    for query in range(n):
        others = [row for row in np.argsort(-(rows @ rows[query]), kind="stable") if row != query]
        relevant = [int(labels[row] == labels[query]) for row in others]
        if not sum(relevant):
            assert np.isnan(ranking.average_precision[query])
            assert np.isnan(ranking.recall[query]).all()
            continue
        precision = [sum(relevant[: rank + 1]) / (rank + 1) for rank, hit in enumerate(relevant) if hit]
        assert ranking.average_precision[query] == pytest.approx(sum(precision) / len(precision), abs=1e-12)
        assert ranking.recall[query].tolist() == [float(any(relevant[:k])) for k in (1, 3)]


def test_chance_is_the_mean_over_all_orders() -> None:
    """Every order of five images, two of them relevant; and equal vectors come in no order of their own."""
    precision, recall = [], []
    for order in set(itertools.permutations((1, 1, 0, 0, 0))):
        hits = np.cumsum(order) / np.arange(1, 6)
        precision.append(sum(hits * order) / 2)
        recall.append([max(order[:1]), max(order[:3])])
    ranking = rank_gallery(np.ones((1, 2)), np.eye(5, 2), [1], [1, 1, 0, 0, 0], ks=(1, 3))
    assert ranking.chance_precision == pytest.approx(np.mean(precision), abs=1e-12)
    assert ranking.chance_recall == pytest.approx(np.mean(recall, axis=0), abs=1e-12)
    labels = np.repeat(np.arange(20), 10)
    same = rank_gallery(np.ones((200, 4)), np.ones((200, 4)), labels, labels, same=True)
    assert np.mean(same.average_precision) == pytest.approx(same.chance_precision, abs=0.02)


def test_votes_are_scikit_learns_of_equal_and_of_own_weights() -> None:
    rng = np.random.default_rng(0)
    rows, labels, values = rng.normal(size=(80, 4)), rng.integers(0, 3, 80), rng.normal(size=(25, 4))
    rows, values = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (rows, values))
    similar = values @ rows.T
    order = np.argsort(-similar, axis=1)[:, :7]
    for temperature, weights in ((1e9, "uniform"), (0.07, lambda d: np.exp((1 - d * d / 2) / 0.07))):
        theirs = KNeighborsClassifier(7, weights=weights).fit(rows, labels).predict_proba(values)
        votes = neighbour_votes(labels[order], np.take_along_axis(similar, order, 1), 3, temperature=temperature)
        assert votes == pytest.approx(theirs, abs=1e-6)


def test_validation_chooses_the_number_of_neighbours() -> None:
    near = np.full((10, 5), 0.5)
    labels = np.array([[1, 0, 0, 1, 1]] * 10)
    assert choose_neighbours(labels, near, np.zeros(10), 2).k == 3
    assert choose_neighbours(labels, near, np.ones(10), 2).k == 1
    with pytest.raises(ValueError, match="0 samples, 5 neighbours"):
        choose_neighbours(labels, near, [], 2)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 60), st.integers(1, 6), st.integers(1, 6), st.integers(0, 999))
def test_agreements_are_scikit_learns(n: int, classes: int, clusters: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    true, clusters_of_samples = rng.integers(0, classes, n), rng.integers(0, clusters, n)
    theirs = {
        "ami": sk.adjusted_mutual_info_score(true, clusters_of_samples),
        "v_measure": sk.v_measure_score(true, clusters_of_samples),
    }
    for name, value in theirs.items():
        assert agreement(name, clusters_of_samples, true, resamples=0).value == pytest.approx(value, abs=1e-9)
        weights = rng.integers(0, 2, n)
        weights[:2] = 1
        counts = weights.astype(bool)
        part = {"ami": sk.adjusted_mutual_info_score, "v_measure": sk.v_measure_score}[name](
            true[counts], clusters_of_samples[counts]
        )
        outcomes = np.stack([clusters_of_samples, true], axis=1).astype(float)
        assert AGREEMENTS[name](outcomes, weights[None].astype(float))[0] == pytest.approx(part, abs=1e-9)
    renamed = matched_clusters(clusters_of_samples, true)
    assert sk.adjusted_rand_score(clusters_of_samples, renamed) == 1.0
    assert (renamed == true).sum() >= (clusters_of_samples == true).sum()


def test_the_interval_of_clusters_that_know_nothing_holds_zero() -> None:
    """A bootstrap's repeated samples look like agreement: its interval of random clusters lay above 0."""
    covered = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        score = agreement("ami", rng.integers(0, 8, 200), rng.integers(0, 8, 200), seed=seed, resamples=100)
        assert score.low <= score.value <= score.high
        covered += score.low <= 0 <= score.high
    assert covered >= 33  # 38 of 40 are expected at 95 %


def test_clusters_of_what_lies_apart_are_its_classes() -> None:
    rng = np.random.default_rng(0)
    classes = np.repeat(np.arange(4), 30)
    clusters = cluster(np.eye(4)[classes] * 20 + rng.normal(size=(120, 4)), 4)
    assert agreement("ami", clusters, classes).value == 1.0
    with pytest.raises(ValueError, match="3 samples do not make 4 clusters"):
        cluster(np.eye(3), 4)


def test_what_cannot_be_ranked_is_said() -> None:
    with pytest.raises(ValueError, match="none of 2 queries"):
        rank_gallery(np.eye(2), np.eye(2), [0, 1], [0, 1], same=True)
    with pytest.raises(ValueError, match=r"the gallery \(2, 3\)"):
        rank_gallery(np.eye(2), np.ones((2, 3)), [0, 1], [0, 1])
    with pytest.raises(ValueError, match=r"expected 0\.\.1"):
        neighbour_votes([[2]], [[1.0]], 2)


def test_a_choice_counts_no_sample_without_a_neighbour_and_takes_truth_in_a_row() -> None:
    """The first class was right where nothing was near, and truth in a column was held against every sample."""
    labels, near = np.array([[-1, -1], [1, 1], [0, 0]]), np.ones((3, 2))
    assert choose_neighbours(labels, near, np.array([0, 1, 0]), 2).accuracies == {1: pytest.approx(2 / 3)}
    with pytest.raises(ValueError, match=r"labels have shape \(3, 2\), truth \(3, 1\); expected \[n, k\] and \[n\]"):
        choose_neighbours(labels, near, np.array([[0], [1], [0]]), 2)


def test_a_row_without_neighbours_has_no_votes_and_no_warning() -> None:
    votes = neighbour_votes([[-1, -1], [1, -1]], [[-np.inf, -np.inf], [0.5, -np.inf]], 2)
    assert votes.tolist() == [[0, 0], [0, 1]]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_gallery_with_nan_is_refused(value: float) -> None:
    rows, odd = np.eye(4), np.eye(4)
    odd[2, 1] = value
    for queries, gallery, name in ((odd, rows, "query row 2"), (rows, odd, "gallery row 2")):
        with pytest.raises(ValueError, match=f"{name} holds NaN or infinity"):
            rank_gallery(queries, gallery, [0, 1, 0, 1], [0, 1, 0, 1])


def test_what_has_no_order_is_refused() -> None:
    eye, labels = np.eye(3), [0, 0, 1]
    for similarity in (np.nan, np.inf):
        with pytest.raises(ValueError, match="of sample 1, neighbour 0: expected a finite number"):
            neighbour_votes([[0, 1], [1, 0]], [[0.5, 0.4], [similarity, 0.1]], 2)
    assert neighbour_votes([[0, -1]], [[0.5, np.nan]], 2).tolist() == [[1.0, 0.0]]
    with pytest.raises(ValueError, match="labels are float64, expected integers"):
        neighbour_votes([[0.0, 1.0]], [[0.5, 0.4]], 2)
    with pytest.raises(ValueError, match=r"ks \[0, 1\]"):
        rank_gallery(eye, eye, labels, labels, ks=(0, 1))
    with pytest.raises(ValueError, match="query row 0: an inner product is beyond float32"):
        rank_gallery(eye * 1e30, eye * 1e30, labels, labels)


@pytest.mark.parametrize("name", ["ami", "v_measure"])
def test_clusters_that_are_the_classes_keep_an_interval(name: str) -> None:
    """No resample differs from 1, so that few samples seemed to say it for certain."""
    classes = np.arange(30) % 3
    score = agreement(name, (classes + 1) % 3, classes)
    assert score.value == pytest.approx(1)
    assert score.low == pytest.approx(0.8865, abs=1e-3)  # Wilson's for 30 of 30
    assert agreement(name, np.tile(classes, 10), np.tile(classes, 10)).low > score.low
