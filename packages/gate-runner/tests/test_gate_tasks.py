"""The task types that GATE's data sets need, each on a small stand-in, and their metrics against slow references."""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eqben_builder.stand_ins.drawing import SEEDS
from gate_data.cards import SHEETS
from gate_data.data import Split
from gate_runner.benchmarks import BENCHMARKS, PACKS, DataRequest
from gate_runner.benchmarks.paper import paper_row
from gate_runner.benchmarks.registry import STAND_INS
from gate_runner.errors import DataError, UsageError
from gate_runner.runs.request import eval_units_of, make_request
from gate_runner.settings import Settings
from gate_runner.tasks import Job, run_task
from gate_runner.tasks.few_shot import _episode_indices, _gate_episodes
from gate_runner.tasks.matching import _first_of_each
from gate_runner.tasks.scoring import hits
from vision_adapters.retrieval import chance_of_recall
from vision_features.encoders import load_encoder

NEW = ("chexpert", "happy", "flickr30k", "nycc", "hmdb51", "clevr", "nyu-depth", "winoground")
TABLE_3 = {
    "Acc@1": "acc@1", "Acc@5": "acc@5", "Individual Acc@1": "individual_acc@1", "Individual Acc@5": "individual_acc@5",
    "Species Acc@1": "species_acc@1", "Species Acc@5": "species_acc@5", "mIoU": "miou", "Mean Acc@": "mean_acc",
    "Overall Acc@": "overall_acc", "Dice Score": "dice", "Colour Acc@1": "colour", "Count Acc@1": "count",
    "Material Acc@1": "material", "Shape Acc@1": "shape", "Size Acc@1": "size", "Yes/No Acc@1": "yes/no",
    "APS Macro": "average_precision", "AUC Macro": "roc_auc", "BS Macro": "brier", "Img2Txt": "image_to_text",
    "Txt2Img": "text_to_image", "Img2Txt Acc@1": "image_to_text", "Txt2Img Acc@1": "text_to_image", "MAE Score": "mae",
    "MSE Loss": "mse",
}  # fmt: skip
"""The paper's names and ours."""
BY_TASK = {"few-shot": {"acc@1": "accuracy"}, "pair-scoring": {"image_to_text": "text", "text_to_image": "image"}}


@pytest.mark.parametrize("name", NEW)
def test_a_task_type_scores_a_stand_in(name: str, own: str) -> None:
    benchmark = BENCHMARKS[name]
    if "steps" in benchmark.training:
        few = {"steps": 6, "validate_every": 3, "batch_size": 4 if name == "nyu-depth" else 16, "rates": (1.0, 3.0)}
        benchmark = replace(benchmark, training={**benchmark.training, **few})
    encoder = load_encoder("micro-clip" if name == "winoground" else f"{own}:grid")
    data = benchmark.load("micro", DataRequest(limit=12 if name == "nyu-depth" else 70))
    outcome = run_task(Job(encoder=encoder, benchmark=benchmark, data=data, settings=Settings()))
    assert [score.metric for score in outcome.scores] == list(benchmark.metrics)
    for score in outcome.scores:
        assert np.isfinite([score.value, score.low, score.high, score.chance]).all()
        assert score.low <= score.value <= score.high
        if score.metric.startswith("i2t_r@"):
            texts, k = len(data.test.texts or ()), int(score.metric[6:])
            assert score.chance == chance_of_recall(texts, texts // len(data.test), k)
        assert score.direction == ("lower" if score.metric in ("brier", "rmse", "abs_rel") else "higher")


@pytest.mark.parametrize("name", list(SHEETS))
def test_every_data_set_has_a_stand_in_of_its_own(name: str) -> None:
    full, few = (BENCHMARKS[name].load("micro", DataRequest(limit=limit)) for limit in (10, 5))
    first, second = full.test, few.test
    assert full.note == "synthetic stand-in"
    assert STAND_INS[name].partition(":")[2] in SEEDS
    shared = min(len(second), 5)
    assert torch.equal(first.images[:shared], second.images[:shared])
    assert len({image.numpy().tobytes() for image in first.images}) == len(first)


def test_the_packs_are_the_papers_tiers() -> None:
    assert [len(PACKS[name]) for name in ("small", "base", "big", "full")] == [8, 15, 21, 31]
    assert set(PACKS["small"]) | set(PACKS["base"]) | set(PACKS["big"]) <= set(PACKS["full"]) == set(SHEETS)
    assert len({STAND_INS[name] for name in SHEETS}) == 31


def test_every_metric_of_the_papers_table_is_ours(shared_data: Path) -> None:
    with (shared_data / "gate" / "gate_table3.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["benchmark"]]
    names = {sheet.id: sheet for sheet in SHEETS.values()}
    met = set()
    for row in rows:
        sheet = names[row["benchmark"]]
        matching = [paper for paper in TABLE_3 if row["metric"].endswith(f" {paper}")]
        if row["kind"] == "loss" or row["metric"].endswith("Loss"):
            continue  # a loss is no metric
        digits = row["metric"].split()[-2].isdecimal()
        if not matching and digits:
            assert row["metric"].split()[-1] in ("APS", "AUC", "BS")  # of each class: in the result's `per_class`
            assert int(row["metric"].split()[-2]) < sheet.classes
            continue
        if (row["benchmark"], row["metric"].rpartition(" ")[2]) in (("nyu", "Score"), ("acdc", "Acc@")):
            continue  # dice of what is no class; and what we do not print for the heart
        if "Txt" in row["metric"] and row["metric"].endswith("Acc@5"):
            continue  # we print recalls among all texts instead
        assert matching, row["metric"]
        metric = TABLE_3[max(matching, key=len)]
        if row["benchmark"] == "acdc" and metric == "miou":
            metric = "miou_foreground"  # theirs leaves out what is truly background
        ours = BY_TASK.get(sheet.task, {}).get(metric, metric)
        assert ours in sheet.metrics, (row["metric"], ours)
        met.add(row["benchmark"])
    assert met == set(SHEETS)


def test_one_row_of_each_picture_is_in_a_gallery() -> None:
    images = torch.arange(6, dtype=torch.uint8).div(2, rounding_mode="floor").reshape(6, 1, 1, 1).expand(6, 3, 2, 2)
    assert _first_of_each(Split(images, torch.zeros(6))).tolist() == [0, 2, 4]


def test_ties_share_their_places() -> None:
    scores = torch.tensor([[1.0, 1.0, 0.0, 2.0]])
    assert [float(hits(scores, torch.tensor([0]), k)[0]) for k in (1, 2, 3)] == [0.0, 0.5, 1.0]


def test_seeds_lie_apart() -> None:
    starts = sorted(SEEDS.values())
    assert all(second - first >= 3 for first, second in pairwise(starts))


def test_which_rows_of_the_paper_are_comparable() -> None:
    reason = "their rows are another data set: see `chestxray14`"
    assert paper_row("chexpert", "local") == ("chexpert", False, reason)
    assert paper_row("chestxray14", "local") == (
        "chexpert",
        True,
        "the same images, five findings and official test as the paper's rows",
    )
    acdc = paper_row("acdc", "local")  # its headline, dice, is a soft loss there
    assert acdc is not None
    assert not acdc.comparable
    assert "miou_foreground" in SHEETS["acdc"].metrics
    assert paper_row("digits", "local") is None
    assert {name for name in SHEETS if (row := paper_row(name, "local")) is not None and row.benchmark == name} == set(
        SHEETS
    )


def test_a_split_without_enough_of_a_class_is_named() -> None:
    split = Split(torch.zeros(30, 3, 1, 1, dtype=torch.uint8), torch.arange(30))
    with pytest.raises(DataError, match="test split: 5 ways or more need 5 classes with 5 samples, but 0 of 30"):
        _gate_episodes(split, "test", 5, 49, 1, 0)
    with pytest.raises(DataError, match=r"train split: 2 ways need as many classes with 3 samples .* --limit"):
        _episode_indices(split, "train", 2, 1, 2, 1, 0)


def test_shots_are_not_of_episodes(tmp_path: Path) -> None:
    names = ["mini", "cifar100", "micro/vgg", "vgg-gate"]

    def part_names(**options: Any) -> list[str]:
        request = make_request(names, "micro-clip", output=tmp_path / "r", settings=Settings().changed(**options))
        return [part.name for part in eval_units_of(request)]

    assert part_names() == ["micro/mini", "micro/cifar100", "micro/vgg", "micro/vgg-gate"]
    with pytest.raises(UsageError, match="--shots does not apply to few-shot"):
        part_names(shots="5")


def test_gates_protocol_scores_a_stand_in(own: str) -> None:
    benchmark = BENCHMARKS["dtextures-gate"]
    benchmark = replace(benchmark, training={**benchmark.training, "episodes": 6, "steps": 4})
    data = benchmark.load("micro", DataRequest(limit=200))
    outcome = run_task(Job(encoder=load_encoder(f"{own}:grid"), benchmark=benchmark, data=data, settings=Settings()))
    (score,) = outcome.scores
    assert score.value > score.chance > 0
    assert len(outcome.samples) == 6
