"""The head of few images of one's own is chosen by folds over all that are labelled, not by a small draw."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import gate_runner
from gate_data.data import Data, Split
from gate_runner.benchmark import Benchmark
from gate_runner.commands.adapt import how_chosen
from gate_runner.errors import DataError
from gate_runner.tasks.classification import drawn_small, solve_and_test
from gate_runner.tasks.classification import run as classification
from gate_runner.tasks.job import Job
from vision_adapters import HeadClassifier
from vision_adapters.tuning.folds import class_folds
from vision_features.encoders import load_encoder

CLASSES, TRAIN, HELD, TEST = 5, 90, 10, 300


def _file(folder: Path, splits: str = "") -> str:
    path = folder / "benchmark.toml"
    path.write_text(f'[benchmark]\nid = "pots"\n[data]\nkind = "folders"\n{splits}')
    return str(path)


def _job(file: str, seed: int = 0) -> tuple[Job, torch.Tensor, torch.Tensor]:
    """A job on random images: what matters are the features, which the test puts in their place."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(TRAIN + HELD + TEST) % CLASSES
    centres = torch.randn(CLASSES, 40, generator=draw)
    features = centres[labels] + 3.0 * torch.randn(len(labels), 40, generator=draw)
    images = torch.zeros(len(labels), 3, 2, 2, dtype=torch.uint8)
    parts = [Split(images[rows], labels[rows]) for rows in (slice(0, 90), slice(90, 100), slice(100, None))]
    data = Data(*parts, tuple("abcde"))
    benchmark = Benchmark("pots", "Pots", "image-classification", ("acc@1",), {"file": file})
    return Job(load_encoder("micro-dense/random:0"), benchmark, data, seed=seed), features, labels


def _solve(job: Job, features: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> gate_runner.tasks.job.Outcome:
    rows = {"train": features[:TRAIN], "validation": features[TRAIN : TRAIN + HELD], "test": features[TRAIN + HELD :]}
    module = "gate_runner.tasks.classification"
    monkeypatch.setattr(f"{module}.kinds_to_probe", lambda job: {"projected": "pooled"})
    monkeypatch.setattr(f"{module}.rows_of", lambda job, split, kind, name: rows[name.split("-")[0]])
    return solve_and_test(job, torch.zeros(TEST, CLASSES))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.again) for seed in (1, 2))])
def test_few_own_images_get_the_head_of_the_librarys_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    job, features, labels = _job(_file(tmp_path), seed)
    outcome = _solve(job, features, monkeypatch)
    default = HeadClassifier(random_state=seed).fit(features[: TRAIN + HELD].numpy(), labels[: TRAIN + HELD].numpy())
    right = default.score(features[TRAIN + HELD :].numpy(), labels[TRAIN + HELD :].numpy())
    assert outcome.scores[0].value == pytest.approx(right, abs=1e-6)
    chosen = outcome.training["chosen_by"]
    assert (chosen["folds"], chosen["samples"]) == (5, TRAIN + HELD)
    assert chosen["acc@1"] == pytest.approx(default.best_score_)
    assert 0.0 <= chosen["unseen"] <= 1.0


def test_what_the_choice_did_not_see_is_each_folds_score_by_the_head_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, features, labels = _job(_file(tmp_path))
    chosen = _solve(job, features, monkeypatch).training["chosen_by"]
    known, truth = features[: TRAIN + HELD], labels[: TRAIN + HELD]
    numbers, right = class_folds(truth, 5, 0), 0
    for fold in range(5):
        train, test = numbers != fold, numbers == fold
        head = HeadClassifier(random_state=0).fit(known[train].numpy(), truth[train].numpy())
        right += int((head.predict(known[test].numpy()) == truth[test].numpy()).sum())
    assert chosen["unseen"] == pytest.approx(right / len(truth))


@pytest.mark.parametrize("splits", ['[splits]\nvalidation = "val"\n', '[splits]\ngroup = "place"\n'])
def test_a_given_validation_split_and_whole_groups_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, splits: str
) -> None:
    job, features, _ = _job(_file(tmp_path, splits))
    assert not drawn_small(job)
    chosen = _solve(job, features, monkeypatch).training["chosen_by"]
    assert (chosen["folds"], chosen["samples"]) == (1, HELD)
    assert "unseen" not in chosen
    many = replace(job, data=replace(job.data, train=Split(torch.zeros(990, 3, 2, 2, dtype=torch.uint8),
                                                           torch.arange(990) % CLASSES)))  # fmt: skip
    plain = tmp_path / "plain"
    plain.mkdir()
    assert not drawn_small(replace(many, benchmark=replace(job.benchmark, sources={"file": _file(plain)})))


@pytest.mark.parametrize(
    ("words", "named", "drawn"),
    [
        ("train test", "", True),
        ("train test validation", "", False),
        ("train test val", 'validation = "val"\n', False),
        ("train test", 'validation = "val"\n', True),
    ],
)
def test_a_column_of_training_and_test_alone_leaves_validation_to_be_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, named: str, drawn: bool
) -> None:
    """A tenth of 300 labelled images chose the head, since the column counted as a given validation split."""
    rows = [f"{number}.png,a,{word}" for number, word in enumerate(words.split())]
    (tmp_path / "all.csv").write_text("\n".join(["file,label,part", *rows]) + "\n")
    (tmp_path / "benchmark.toml").write_text(
        '[benchmark]\nid = "pots"\n[data]\nkind = "table"\ntable = "all.csv"\nimage = "file"\n'
        f'[splits]\ncolumn = "part"\n{named}'
    )
    job, features, _ = _job(str(tmp_path / "benchmark.toml"))
    assert drawn_small(job) == drawn
    chosen = _solve(job, features, monkeypatch).training["chosen_by"]
    assert (chosen["folds"], chosen["samples"]) == ((5, TRAIN + HELD) if drawn else (1, HELD))


@pytest.mark.parametrize("kind", ["folders", "table", "datasets", "webdataset"])
def test_splits_of_any_kind_without_validation_leave_it_to_be_drawn(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "benchmark.toml"
    named = '[splits]\ntrain = "a.csv"\ntest = "b.csv"\n'
    for validation, drawn in (("", True), ('validation = "c.csv"\n', False)):
        path.write_text(f'[benchmark]\nid = "pots"\n[data]\nkind = "{kind}"\n{named}{validation}')
        assert drawn_small(_job(str(path))[0]) == drawn


def test_a_folder_of_ones_own_says_how_its_head_was_chosen(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for name in ("dark", "light"):
        (tmp_path / "pots" / name).mkdir(parents=True)
        for index in range(10):
            level = 60 if name == "dark" else 190
            picture = (level + draw.integers(-30, 30, (24, 24, 3))).astype(np.uint8)
            Image.fromarray(picture).save(tmp_path / "pots" / name / f"{index}.png")
    (result,) = gate_runner.adapt(tmp_path / "pots", encoder="micro-dense/random:1", output=tmp_path / "run").results
    assert result.training["chosen_by"]["samples"] == result.data["train"] + result.data["validation"]
    assert result.training["chosen_by"]["folds"] == 5
    shown = how_chosen(result)
    assert "by 5 folds of 16 labelled images" in shown
    assert shown.endswith(f"{result.training['chosen_by']['unseen']:.4f} on folds that the choice did not see")


@pytest.mark.parametrize(
    ("limit", "labels", "message"),
    [
        (1, ((0,), (1,), (1,)), r"pots: all training images are of the class 'a': it needs a larger --limit than 1$"),
        (
            None,
            ((2, 2), (2, 2), (1,)),
            r"pots: all training images are of the class 'c': it needs those of another class$",
        ),
        (2, ((0, 1), (2, 3), (1,)), r"no validation image is of a class that is trained, .* a larger --limit than 2$"),
    ],
)
def test_what_cannot_be_learned_is_refused_at_once(
    tmp_path: Path, limit: int | None, labels: tuple[tuple[int, ...], ...], message: str
) -> None:
    """No head can be solved, so that one was trained for 10,000 steps."""
    job, _, _ = _job(_file(tmp_path))
    parts = [Split(torch.zeros(len(part), 3, 8, 8, dtype=torch.uint8), torch.tensor(part)) for part in labels]
    job = replace(job, data=Data(*parts, tuple("abcde")), settings=job.settings.changed(limit=limit))
    with pytest.raises(DataError, match=message):
        classification(job)
