"""Solved probes: at least scikit-learn's logistic regression, whatever classes are missing."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gate_runner.benchmarks import BENCHMARKS
from gate_runner.errors import UsageError
from gate_runner.executors import run
from gate_runner.runs import RunRequest
from gate_runner.settings import Settings


def test_a_solved_probe_is_at_least_logistic_regression(own: str, tmp_path: Path) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    from vision_features.encoders import load_encoder

    (result,) = run(RunRequest([BENCHMARKS["digits"]], f"{own}:grid", tmp_path / "run", Settings(device="cpu")))
    assert result.training["steps"] == 0
    data = BENCHMARKS["digits"].load("built-in", _request())
    encoder = load_encoder(f"{own}:grid")
    parts = [encoder.encode_image(split.images).numpy() for split in (data.train, data.validation, data.test)]
    scale = StandardScaler().fit(parts[0])
    x, validation, test = (scale.transform(part) for part in parts)
    best = (-1.0, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for strength in np.logspace(-4, 2, 4):
            model = LogisticRegression(C=strength, max_iter=60).fit(x, data.train.targets.numpy())
            scored = (
                model.score(validation, data.validation.targets.numpy()),
                model.score(test, data.test.targets.numpy()),
            )
            best = max(best, scored)
    assert result.scores[0].value >= best[1] - 0.005


@pytest.mark.parametrize("better", ["projected", "backbone"])
def test_the_features_that_validate_better_are_taken(own: str, better: str) -> None:
    from gate_runner.tasks import Job, run_task
    from vision_features.encoders import load_encoder

    encoder = load_encoder(f"{own}:grid", device="cpu")
    whole = encoder.image
    forms = {"projected": lambda images: whole(images)[:, :1], "backbone": lambda images: whole(images)[:, :1]}
    forms[better] = whole
    encoder = replace(encoder, image=forms["projected"], backbone=forms["backbone"])
    data = BENCHMARKS["digits"].load("built-in", replace(_request(), limit=60))
    outcome = run_task(Job(encoder, BENCHMARKS["digits"], data))
    assert outcome.training["features"] == better
    assert {row["features"] for row in outcome.training["tried"]} == set(forms)


def _request():  # type: ignore[no-untyped-def]  # the class is imported late, with torch
    from gate_runner.benchmarks import DataRequest

    return DataRequest(size=32)


@pytest.mark.parametrize("limit", [5, 40])
def test_classes_without_images_are_never_predicted(own: str, tmp_path: Path, limit: int) -> None:
    settings = Settings(limit=limit, device="cpu")
    benchmark = replace(BENCHMARKS["imagenet1k"], training={})
    (result,) = run(RunRequest([benchmark], f"{own}:grid", tmp_path / "run", settings))
    assert result.status == "ok", result.reason


def test_many_images_are_trained_on_in_batches(own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gate_runner.tasks.features.MOST_BYTES", 0)
    monkeypatch.setattr(
        "gate_runner.tasks.fitting._DEFAULT", {"lr": 1e-3, "steps": 10, "batch_size": 16, "validate_every": 5}
    )
    benchmark = BENCHMARKS["digits"]
    (result,) = run(RunRequest([benchmark], f"{own}:grid", tmp_path / "run", Settings(limit=60, device="cpu")))
    assert (result.training["steps"], result.training["lr"]) == (10, 1e-3)
    several = replace(benchmark, training={"rates": (1.0, 0.3, 30.0)})
    (chosen,) = run(RunRequest([several], f"{own}:grid", tmp_path / "rates", Settings(limit=60, device="cpu")))
    tried = {row["lr"]: (row["steps"], row["acc@1"]) for row in chosen.training["tried"]}
    assert list(tried) == pytest.approx([1e-3, 3e-4, 3e-2])
    assert sorted(steps for steps, _ in tried.values()) == [5, 5, 10]  # a quarter and a half are both the first 5
    assert tried[chosen.training["lr"]][0] == 10
    assert [row["step"] for row in chosen.training["validation"]] == [0, 5, 10]  # only the best begun one goes on
    assert not list((tmp_path / "rates" / "unfinished").glob("*.pt*"))
    settings = Settings(limit=60, device="cpu", recipe_fields={"lr": 0.5})
    (explicit,) = run(RunRequest([several], f"{own}:grid", tmp_path / "said", settings))
    assert explicit.training["lr"] == 0.5
    assert "tried" not in explicit.training  # a rate that was said is the only one


def test_the_rates_beginnings_survive_a_kill_at_any_step(own: str, tmp_path: Path) -> None:
    from gate_runner.runs.display import PlainDisplay

    numbers = {"steps": 40, "validate_every": 5, "batch_size": 4, "lr": 1e-3, "rates": (1.0, 0.3, 30.0)}
    benchmark = replace(BENCHMARKS["happy"], training=numbers)
    settings = Settings(limit=24, device="cpu")
    steps_seen: list[tuple[int, int]] = []

    class Watching(PlainDisplay):
        def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
            if phase == "train":
                steps_seen.append((done, total))

    (whole,) = run(RunRequest([benchmark], f"{own}:grid", tmp_path / "whole", settings), Watching())
    assert whole.status == "ok", whole.reason
    assert [row["lr"] for row in whole.training["tried"]] == pytest.approx([1e-3, 3e-4, 3e-2])
    assert sorted(row["steps"] for row in whole.training["tried"]) == [10, 20, 40]
    assert {total for _, total in steps_seen} == {70}  # of three 10, of two 10 more, of one the last 20
    assert [done for done, _ in steps_seen] == sorted(done for done, _ in steps_seen)
    assert steps_seen[-1] == (70, 70)

    left = [13, 36, 66]  # with three rates, with two, with one

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


def test_half_of_the_rates_stop_at_a_quarter_and_all_but_one_at_a_half() -> None:
    from gate_runner.tasks.fitting import rate_factors
    from vision_adapters.training.rates import rungs, work

    assert rungs(600, 50, 3) == [(0, 150, 3), (150, 300, 2), (300, 600, 1)]
    assert rungs(10_000, 500, 5) == [(0, 2500, 5), (2500, 5000, 3), (5000, 10_000, 1)]
    assert rungs(7, 5, 3) == [(0, 5, 3), (5, 7, 1)]
    assert rungs(12, 12, 3) == [(0, 12, 3), (12, 12, 1)]
    assert rungs(600, 50, 1) == [(0, 600, 1)]
    assert rungs(0, 1, 3) == [(0, 0, 1)]
    assert work(600, 50, 3) == (3 * 150 + 2 * 150 + 300, 3 + 3 * 3 + 2 * 3 + 6)
    assert work(600, 50, 1) == (600, 13)
    assert rate_factors({"rates": (1.0, 3.0)}, Settings(device="cpu")) == (1.0, 3.0)
    assert rate_factors({"rates": (1.0, 3.0)}, Settings(device="cpu", recipe_fields={"lr": 0.1})) == (1.0,)


def test_heads_on_questions_try_two_rates_on_the_stand_in_and_three_on_data_files() -> None:
    questions = BENCHMARKS["clevr-math"]
    assert questions.trained_for("micro").training["rates"] == (1.0, 0.3)
    assert questions.trained_for("local").training["rates"] == (1.0, 0.3, 3.0)


def test_folds_test_every_picture_once(own: str, tmp_path: Path) -> None:
    settings = Settings(device="cpu", limit=40, folds=3)
    (result,) = run(RunRequest([BENCHMARKS["digits"]], f"{own}:grid", tmp_path / "run", settings))
    crossed = result.training["cross_validation"]
    assert crossed["folds"] == len(crossed["values"]) == len(crossed["heads"]) == 3
    (headline, *_) = result.scores
    assert min(crossed["low"], headline.value) >= headline.low - 1e-9
    assert crossed["high"] <= headline.high + 1e-9 or headline.high == 1.0
    assert np.mean(crossed["values"]) == pytest.approx(headline.value, abs=0.02)
    assert result.data["test"] == 120
    assert "shared" not in result.data


@pytest.mark.parametrize("name", ["class_weight", "folds"])
def test_what_is_of_classes_alone_is_refused_elsewhere(own: str, tmp_path: Path, name: str) -> None:
    value = {"class_weight": "balanced", "folds": 4}[name]
    with pytest.raises(UsageError, match=f"{name} does not apply to 'chestxray14'"):
        run(RunRequest([BENCHMARKS["chestxray14"]], f"{own}:grid", tmp_path, Settings(device="cpu", **{name: value})))
    trained = Settings(device="cpu", folds=4, tune="full")
    with pytest.raises(UsageError, match="folds are of frozen encoders"):
        run(RunRequest([BENCHMARKS["digits"]], f"{own}:grid", tmp_path, trained))


@pytest.mark.parametrize("weight", ["balanced", "sampled"])
def test_rare_classes_are_named_more_often_where_they_count_the_same(own: str, tmp_path: Path, weight: str) -> None:
    scores = []
    benchmark = replace(BENCHMARKS["digits"], training={"steps": 5, "batch_size": 16, "validate_every": 5})
    for number, each in enumerate(("none", weight)):
        settings = Settings(device="cpu", limit=60, class_weight=each)
        (result,) = run(RunRequest([benchmark], f"{own}:grid", tmp_path / str(number), settings))
        assert result.status == "ok", result.reason
        scores.append(result.scores[0].value)
    assert scores[0] != scores[1]
