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
    assert [row["step"] for row in chosen.training["validation"]] == [0, 5, 10]  # only the best begun one goes on
    assert not list((tmp_path / "rates" / "unfinished").glob("*.pt*"))
    told = Settings(limit=60, device="cpu", recipe_fields={"lr": 0.5})
    (said,) = run(RunRequest([several], f"{own}:grid", tmp_path / "said", told))
    assert said.training["lr"] == 0.5
    assert "tried" not in said.training  # a rate that was said is the only one


def test_the_rates_beginnings_survive_a_kill_at_any_step(own: str, tmp_path: Path) -> None:
    from gate_runner.runs.display import PlainDisplay

    numbers = {"steps": 40, "validate_every": 5, "batch_size": 16, "lr": 1e-3, "rates": (1.0, 0.3, 30.0)}
    benchmark = replace(BENCHMARKS["clevr"], training=numbers)
    settings = Settings(limit=60, device="cpu")
    seen: list[tuple[int, int]] = []

    class Watching(PlainDisplay):
        def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
            if phase == "train":
                seen.append((done, total))

    (whole,) = run(RunRequest([benchmark], f"{own}:grid", tmp_path / "whole", settings), Watching())
    assert whole.status == "ok", whole.reason
    assert [row["lr"] for row in whole.training["tried"]] == pytest.approx([1e-3, 3e-4, 3e-2])
    assert {total for _, total in seen} == {60}  # 40 steps, and 10 of each of the two others
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (60, 60)

    left = [3, 13, 27, 44]

    class Impatient(PlainDisplay):
        def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
            if phase == "train" and done == left[0]:
                raise KeyboardInterrupt

    while left:
        with pytest.raises(KeyboardInterrupt):
            run(RunRequest([benchmark], f"{own}:grid", tmp_path / "cut", settings), Impatient())
        left.pop(0)
    (again,) = run(RunRequest([benchmark], f"{own}:grid", tmp_path / "cut", settings))
    assert again.training == whole.training
    assert again.scores == whole.scores


def test_rates_are_compared_at_a_validated_step() -> None:
    from gate_runner.tasks.rates import compared_at, factors, work

    assert [compared_at(*each) for each in ((600, 50), (300, 50), (10_000, 500), (12, 12), (7, 5), (0, 1))] == [
        150, 100, 2500, 12, 5, 0,
    ]  # fmt: skip
    assert work(600, 50, 3) == (900, 13 + 2 * 4)
    assert work(600, 50, 1) == (600, 13)
    assert factors({"rates": (1.0, 3.0)}, Settings(device="cpu")) == (1.0, 3.0)
    assert factors({"rates": (1.0, 3.0)}, Settings(device="cpu", recipe_fields={"lr": 0.1})) == (1.0,)
