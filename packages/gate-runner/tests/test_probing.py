"""Solved probes: at least scikit-learn's logistic regression, whatever classes are missing."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gate_runner.benchmarks import BENCHMARKS
from gate_runner.executors import run
from gate_runner.runs import RunRequest
from gate_runner.settings import Settings


def test_a_solved_probe_is_at_least_logistic_regression(own: str, tmp_path: Path) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    from gate_runner.encoders import load_encoder

    (found,) = run(RunRequest([BENCHMARKS["digits"]], f"{own}:grid", tmp_path / "run", Settings(device="cpu")))
    assert found.training["steps"] == 0
    data = BENCHMARKS["digits"].load("built-in", _request())
    encoder = load_encoder(f"{own}:grid")
    parts = [encoder.encode_image(split.images).numpy() for split in (data.train, data.validation, data.test)]
    scale = StandardScaler().fit(parts[0])
    x, held, test = (scale.transform(part) for part in parts)
    best = (-1.0, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for strength in np.logspace(-4, 2, 4):
            model = LogisticRegression(C=strength, max_iter=60).fit(x, data.train.targets.numpy())
            scored = (model.score(held, data.validation.targets.numpy()), model.score(test, data.test.targets.numpy()))
            best = max(best, scored)
    assert found.scores[0].value >= best[1] - 0.005


def _request():  # type: ignore[no-untyped-def]  # the class is imported late, with torch
    from gate_runner.benchmarks import DataRequest

    return DataRequest(size=32)


@pytest.mark.parametrize("limit", [5, 40])
def test_classes_without_images_are_never_predicted(own: str, tmp_path: Path, limit: int) -> None:
    settings = Settings(limit=limit, device="cpu")
    benchmark = replace(BENCHMARKS["imagenet1k"], training={})
    (found,) = run(RunRequest([benchmark], f"{own}:grid", tmp_path / "run", settings))
    assert found.status == "ok", found.reason


def test_many_images_are_trained_on_in_batches(own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gate_runner.tasks.probing.MOST_BYTES", 0)
    monkeypatch.setattr(
        "gate_runner.tasks.training._DEFAULT", {"lr": 1e-3, "steps": 10, "batch_size": 16, "validate_every": 5}
    )
    benchmark = BENCHMARKS["digits"]
    (found,) = run(RunRequest([benchmark], f"{own}:grid", tmp_path / "run", Settings(limit=60, device="cpu")))
    assert (found.training["steps"], found.training["lr"]) == (10, 1e-3)
    several = replace(benchmark, training={"rates": (1.0, 0.3, 30.0)})
    (chosen,) = run(RunRequest([several], f"{own}:grid", tmp_path / "rates", Settings(limit=60, device="cpu")))
    tried = {row["lr"]: row["acc@1"] for row in chosen.training["tried"]}
    assert list(tried) == pytest.approx([1e-3, 3e-4, 3e-2])
    assert tried[chosen.training["lr"]] == max(tried.values())
    assert max(tried.values()) >= found.training["validation"][-1]["acc@1"]
    assert not list((tmp_path / "rates" / "unfinished").glob("*.pt*"))
    told = Settings(limit=60, device="cpu", recipe_fields={"lr": 0.5})
    (said,) = run(RunRequest([several], f"{own}:grid", tmp_path / "said", told))
    assert said.training["lr"] == 0.5
    assert "tried" not in said.training  # a rate that was said is the only one
