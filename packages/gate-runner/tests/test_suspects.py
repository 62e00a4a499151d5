"""Candidates for wrong labels: planted swaps come first, and the accuracy's range says what they could change."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gate_runner
from gate_runner.errors import DataError
from gate_runner.reports import report
from gate_runner.runs.suspects import accuracy_range, corrected_accuracy, suspects


def test_only_confident_contradictions_are_named() -> None:
    rows = {
        "files": np.array(list("abcdef")),
        "classes": np.array(["cat", "dog"]),
        "truth": np.array([0, 0, 1, 1, 0, 1]),
        "confidence": np.array([0.9, 0.7, 0.8, 0.6, 0.95, 0.75]),
    }
    predicted = np.array([0, 0, 1, 1, 1, 0])  # e is far above 0.7, f is below 0.8
    (only,) = suspects(rows, predicted)
    assert (only.file, only.label, only.prediction, round(only.threshold, 3)) == ("e", "cat", "dog", 0.7)
    assert accuracy_range(rows["truth"], predicted, 1) == (4 / 6, 5 / 6)


def test_thresholds_are_mean_probabilities_of_labels() -> None:
    chances = np.array([[0.9, 0.1], [0.3, 0.7], [0.2, 0.8], [0.4, 0.6], [0.05, 0.95], [0.25, 0.75]])
    truth = np.array([0, 0, 1, 1, 0, 1])
    rows = {
        "files": np.array(list("abcdef")),
        "classes": np.array(["cat", "dog"]),
        "truth": truth,
        "confidence": chances.max(axis=1),
        "distributions": chances.astype(np.float16),
    }
    predicted = chances.argmax(axis=1)
    # cat: (0.9 + 0.3 + 0.05) / 3, dog: (0.8 + 0.6 + 0.75) / 3 = 0.717: b's 0.7 is below, e's 0.95 above
    (only,) = suspects(rows, predicted)
    assert (only.file, only.label, only.prediction, only.place) == ("e", "cat", "dog", 4)
    assert only.threshold == pytest.approx(2.15 / 3, abs=1e-3)
    assert only.of_label == pytest.approx(0.05, abs=1e-4)


@pytest.mark.parametrize(
    ("chances", "expected"),
    [
        ([[0.9, 0.1], [0.9, 0.8]], r"sample 1: the probabilities of its 2 classes sum to 1.7, expected 1"),
        ([[0.9, 0.1], [1.5, -0.5]], r"expected probabilities, got 1.5"),
        ([[np.nan, 0.1], [0.5, 0.5]], r"NaN"),
        ([[1.0], [1.0]], r"shape \(2, 1\), expected \(2, 2\)"),
    ],
)
def test_what_are_no_probabilities_is_refused(chances: list[list[float]], expected: str) -> None:
    rows = {
        "files": np.array(["a", "b"]),
        "classes": np.array(["cat", "dog"]),
        "truth": np.array([0, 1]),
        "confidence": np.array([0.9, 0.9]),
        "distributions": np.array(chances, np.float16),
    }
    with pytest.raises(DataError, match=expected):
        suspects(rows, np.array([0, 0]))


def test_candidates_are_those_of_cleanlab() -> None:
    filters = pytest.importorskip("cleanlab.filter")
    rng = np.random.default_rng(3)
    truth = np.repeat(np.arange(4), 60)
    labels = np.where(rng.random(240) < 0.1, rng.integers(0, 4, 240), truth)
    logits = rng.normal(size=(240, 4)) + 3 * np.eye(4)[truth]
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    rows = {
        "files": np.arange(240).astype(str),
        "classes": np.array(list("abcd")),
        "truth": labels,
        "confidence": chances.max(axis=1),
        "distributions": chances,
    }
    ours = [suspect.place for suspect in suspects(rows, chances.argmax(axis=1))]
    how = {"filter_by": "confident_learning", "return_indices_ranked_by": "normalized_margin", "n_jobs": 1}
    assert ours == filters.find_label_issues(labels, chances, **how).tolist()


def test_a_review_counts_predictions_that_were_right() -> None:
    truth, predicted = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 0])
    made = corrected_accuracy(truth, predicted, {1: 1, 2: None, 4: -1})
    assert (made.before[0], made.after[0], made.images) == (0.4, 0.75, (5, 4))


def test_planted_swaps_are_listed_first(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["image,label"]
    for at in range(120):
        pixels = rng.integers(0, 80, (24, 24, 3))
        pixels[..., 2 * (at % 2)] += 150
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / f"{at}.png")
        lines.append(f"{at}.png,{('red', 'blue')[at % 2 if at not in (10, 51, 77) else 1 - at % 2]}")
    (tmp_path / "colours.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "benchmark.toml").write_text(
        '[benchmark]\nid = "colours"\n[data]\nkind = "table"\ntable = "colours.csv"\n'
    )
    file = str(tmp_path / "benchmark.toml")
    gate_runner.run(file, encoder="micro-clip", output=tmp_path / "runs", folds=4, show=False)
    listed = list(csv.DictReader(io.StringIO(report(tmp_path / "runs", form="suspects"))))
    # a fold whose head is less sure than the others' may leave its swap below the class's mean probability
    files = [row["file"] for row in listed]
    assert len(files) >= 2
    assert set(files) <= {"10.png", "51.png", "77.png"}
    assert float(listed[0]["accuracy_if_all_are_wrong"]) > float(listed[0]["accuracy"])
