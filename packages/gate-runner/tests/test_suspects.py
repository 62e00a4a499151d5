"""Candidates for wrong labels: planted swaps come first, and the accuracy's range says what they could change."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
from PIL import Image

import gate_runner
from gate_runner.reports import report
from gate_runner.runs.suspects import accuracy_range, suspects


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
    assert {row["file"] for row in listed[:3]} == {"10.png", "51.png", "77.png"}
    assert float(listed[0]["accuracy_if_all_are_wrong"]) > float(listed[0]["accuracy"])
