"""Labels of clusters and slices: the same from a list, an array and a tensor, and none that is missing."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from paired_scores import by_class, confusion, evaluate, paired_test, worse_than_another
from paired_scores.clusters import cluster_interval
from paired_scores.slices import slice_scores

CLUSTERS = np.repeat(np.arange(8), 5)


def forms() -> list[Any]:
    torch = pytest.importorskip("torch")
    return [CLUSTERS, torch.tensor(CLUSTERS), list(torch.tensor(CLUSTERS)), CLUSTERS.astype(np.uint8)]


def test_clusters_are_the_same_from_every_form() -> None:
    first, second = np.random.default_rng(0).random((2, 40))
    tested = paired_test("own", [first], [second], clusters=CLUSTERS.tolist())
    interval = cluster_interval("own", first, CLUSTERS.tolist())
    sliced = slice_scores("own", first, ["a"] * 20 + ["b"] * 20, clusters=CLUSTERS.tolist())
    assert tested.clusters == sliced.clusters == 8
    for form in forms():
        assert paired_test("own", [first], [second], clusters=form) == tested
        assert cluster_interval("own", first, form) == interval
        assert slice_scores("own", first, ["a"] * 20 + ["b"] * 20, clusters=form) == sliced


def test_slices_are_the_same_from_every_form() -> None:
    outcomes = np.random.default_rng(0).random(40)
    sliced = slice_scores("own", outcomes, CLUSTERS.tolist())
    assert [row.name for row in sliced.rows] == [str(label) for label in range(8)]
    for form in forms():
        assert slice_scores("own", outcomes, form) == sliced


@pytest.mark.parametrize("missing", [None, float("nan"), np.float64("nan")])
def test_a_label_that_is_missing_is_refused(missing: object) -> None:
    labels = ["a", "a", missing, "b"]
    with pytest.raises(ValueError, match="clusters: sample 2 has the label"):
        paired_test("own", [[1.0, 2.0, 3.0, 4.0]], [[1.0, 2.0, 3.0, 5.0]], clusters=labels)
    with pytest.raises(ValueError, match="clusters: sample 2 has the label"):
        cluster_interval("own", np.arange(4.0), labels)


def test_labels_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(ValueError, match=r"clusters: sample 0 has the label \[1\]; expected a text or number"):
        cluster_interval("own", np.arange(2.0), [[1], [2]])
    with pytest.raises(ValueError, match=r"clusters: labels have shape \(2, 1\)"):
        cluster_interval("own", np.arange(2.0), np.zeros((2, 1)))


def test_samples_without_a_slice_are_one_slice() -> None:
    sliced = slice_scores("own", np.arange(4.0), np.array([1.0, np.nan, np.nan, 1.0]))
    assert [(row.name, row.samples) for row in sliced.rows] == [("1.0", 2), ("nan", 2)]


def missing_forms() -> list[Any]:
    pandas = pytest.importorskip("pandas")
    named = [None if place == 3 else f"p{place // 5}" for place in range(40)]
    numbers = [None if place == 3 else place // 5 for place in range(40)]
    return [
        pandas.Series(named, dtype="string"),
        pandas.Series(numbers, dtype="Int64"),
        pandas.to_datetime(
            pandas.Series([None if place == 3 else f"2020-01-0{place // 5 + 1}" for place in range(40)])
        ),
        pandas.Series(named).astype("category"),
        [Decimal("nan") if place == 3 else label for place, label in enumerate(named)],
        np.ma.masked_array(CLUSTERS, np.arange(40) == 3),
        np.where(np.arange(40) == 3, np.datetime64("NaT"), np.datetime64("2020-01-01")),
    ]


@pytest.mark.parametrize("number", range(7))
def test_whatever_marks_a_missing_label_is_refused_with_its_place(number: int) -> None:
    outcomes = np.random.default_rng(0).random(40)
    with pytest.raises(ValueError, match="sample 3 has the label"):
        paired_test("score", [outcomes], [outcomes[::-1]], clusters=missing_forms()[number])


def test_missing_slices_of_any_form_are_one_slice() -> None:
    outcomes = np.random.default_rng(0).random(40)
    for slices in missing_forms()[:5]:
        rows = slice_scores("score", outcomes, slices).rows
        assert sum(row.samples for row in rows) == 40
        assert [row.samples for row in rows if row.name in ("nan", "None")] == [1]


def test_clusters_are_a_list_in_the_samples_order() -> None:
    outcomes = np.random.default_rng(0).random(40)
    pandas = pytest.importorskip("pandas")
    for clusters in (dict(enumerate(CLUSTERS)), set(range(40)), "ab" * 20, pandas.DataFrame({"patient": CLUSTERS})):
        with pytest.raises(ValueError, match="clusters: labels"):
            paired_test("score", [outcomes], [outcomes[::-1]], clusters=clusters)  # type: ignore[arg-type]
    given = paired_test("score", [outcomes], [outcomes[::-1]], clusters=(int(label) for label in CLUSTERS))  # type: ignore[arg-type]
    assert given.clusters == 8


def test_counts_that_are_not_whole_are_refused_by_name():
    right = np.array([1.0, 0.0, 1.0, 1.0])
    for call, name in (
        (lambda: evaluate("accuracy", [0, 1], [0, 1], resamples=2.5), "resamples"),
        (lambda: by_class([0, 1], [0, 1], 2.5), "classes"),
        (lambda: confusion([0, 1], [0, 1], 2.5), "classes"),
        (lambda: paired_test("accuracy", [right], [1 - right], permutations=2.5), "permutations"),
        (lambda: worse_than_another("accuracy", [[right], [1 - right]], seed=2.5), "seed"),
    ):
        with pytest.raises(ValueError, match=f"{name} is 2.5; expected a whole number"):
            call()


def test_a_prediction_that_is_no_class_is_called_one():
    with pytest.raises(ValueError, match=r"prediction 1\.5 of sample 0 is out of range"):
        evaluate("accuracy", [1.5], [1])
    with pytest.raises(ValueError, match=r"target 1\.5 of sample 0 is out of range"):
        evaluate("accuracy", [1], [1.5])
