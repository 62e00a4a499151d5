"""The task types that GATE's data sets need, each on a small stand-in, and their metrics against slow references."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gate_data.cards import SHEETS
from gate_data.data import Split
from gate_runner.benchmarks import BENCHMARKS, PACKS, DataRequest
from gate_runner.benchmarks.paper import paper_row
from gate_runner.benchmarks.registry import STAND_INS
from gate_runner.encoders import load_encoder
from gate_runner.errors import DataError, UsageError
from gate_runner.micro.making import SEEDS
from gate_runner.runs.request import make_request, parts_of
from gate_runner.settings import Settings
from gate_runner.tasks import Job, run_task
from gate_runner.tasks.few_shot import PrototypeHead, gate_episodes
from gate_runner.tasks.matching import _galleries, _recalls
from gate_runner.tasks.training import hits

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
        few = {"steps": 6, "validate_every": 3, "batch_size": 16, "rates": (1.0, 3.0)}
        benchmark = replace(benchmark, training={**benchmark.training, **few})
    encoder = load_encoder("micro-clip" if name == "winoground" else f"{own}:grid")
    data = benchmark.load("micro", DataRequest(limit=24 if name == "nyu-depth" else 70))
    outcome = run_task(Job(encoder=encoder, benchmark=benchmark, data=data, settings=Settings()))
    assert [score.metric for score in outcome.scores] == list(benchmark.metrics)
    for score in outcome.scores:
        assert np.isfinite([score.value, score.low, score.high, score.chance]).all()
        assert score.low <= score.value <= score.high
        assert score.direction == ("lower" if score.metric in ("brier", "rmse", "abs_rel") else "higher")


@pytest.mark.parametrize("name", list(SHEETS))
def test_every_data_set_has_a_stand_in_of_its_own(name: str) -> None:
    full, few = (BENCHMARKS[name].load("micro", DataRequest(limit=limit)) for limit in (10, 5))
    first, second = full.test, few.test
    assert full.note == "synthetic stand-in"
    assert name in SEEDS
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


def test_recalls_and_galleries_agree_with_loops() -> None:
    generator = torch.Generator().manual_seed(3)
    joint = torch.randn(9, 4, 5, generator=generator)
    recalls = _recalls(joint)
    for k in (1, 5, 10):
        for image in range(9):
            scores = sorted(
                ((float(joint[image, 0] @ joint[owner, 1 + text]), owner) for owner in range(9) for text in range(3)),
                reverse=True,
            )
            assert recalls[f"i2t_r@{k}"][image] == float(any(owner == image for _, owner in scores[:k]))
        for image in range(9):
            right = 0
            for text in range(3):
                scores = sorted(
                    ((float(joint[other, 0] @ joint[image, 1 + text]), other) for other in range(9)), reverse=True
                )
                right += any(other == image for _, other in scores[:k])
            assert recalls[f"t2i_r@{k}"][image] == pytest.approx(right / 3)
    split = Split(torch.arange(9, dtype=torch.uint8).reshape(9, 1, 1, 1).expand(9, 3, 2, 2), torch.zeros(9))
    pairs = joint[:, :2]
    galleries = _galleries(pairs, split)
    scores = pairs[:, 0] @ pairs[:, 1].T
    assert galleries["image_to_text"].tolist() == [float(scores[i].argmax() == i) for i in range(9)]
    assert galleries["text_to_image"].tolist() == [float(scores[:, i].argmax() == i) for i in range(9)]


def test_equal_scores_share_the_places_of_recalls() -> None:
    """A constant encoder knows nothing; others are the mean over all orders of what is equal."""
    constant = _recalls(torch.ones(12, 6, 4))
    for k in (1, 5, 10):
        expected = 1 - math.comb(55, k) / math.comb(60, k)  # of 60 texts 5 are the image's
        assert constant[f"i2t_r@{k}"] == pytest.approx(np.full(12, expected))
        assert constant[f"t2i_r@{k}"] == pytest.approx(np.full(12, min(1.0, k / 12)))
    generator = torch.Generator().manual_seed(1)
    joint = torch.randint(0, 2, (3, 3, 2), generator=generator).double()
    recalls, orders = _recalls(joint), list(permutations(range(6)))
    texts = joint[:, 1:].reshape(6, 2)
    for image in range(3):
        scores = (texts @ joint[image, 0]).tolist()
        first = [sorted(order, key=lambda text: -scores[text])[0] for order in orders]  # sorting keeps an order of ties
        assert recalls["i2t_r@1"][image] == pytest.approx(np.mean([text // 2 == image for text in first]))


def test_one_row_of_each_picture_is_in_a_gallery() -> None:
    images = torch.arange(6, dtype=torch.uint8).div(2, rounding_mode="floor").reshape(6, 1, 1, 1).expand(6, 3, 2, 2)
    galleries = _galleries(
        torch.randn(6, 2, 4, generator=torch.Generator().manual_seed(0)), Split(images, torch.zeros(6))
    )
    assert np.isnan(galleries["image_to_text"]).tolist() == [False, True] * 3


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
        "the same pictures, five findings and official test as the paper's rows",
    )
    acdc = paper_row("acdc", "local")  # its headline, dice, is a soft loss there
    assert acdc is not None
    assert not acdc.comparable
    assert "miou_foreground" in SHEETS["acdc"].metrics
    assert paper_row("digits", "local") is None
    assert {name for name in SHEETS if (row := paper_row(name, "local")) is not None and row.benchmark == name} == set(
        SHEETS
    )


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
    split = Split(torch.zeros(len(targets), 3, 1, 1, dtype=torch.uint8), targets)
    ours = gate_episodes(split, "test", 5, high, count, 7)
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
        split = Split(torch.zeros(len(targets), 3, 1, 1, dtype=torch.uint8), targets)
        episodes = gate_episodes(split, "test", 5, 49, 40, 7)
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
        again = gate_episodes(split, "test", 5, 49, 3, 7)
        assert torch.equal(again.ways, episodes.ways[:3])
    with pytest.raises(DataError, match="needs 5 classes of 5 images in the test split; it has 0"):
        gate_episodes(Split(split.images, torch.arange(30)), "test", 5, 49, 1, 0)


def test_padding_changes_no_score() -> None:
    generator = torch.Generator().manual_seed(0)
    samples = torch.randn(1, 3, 4, 6, generator=generator)
    shots = torch.tensor([[[True, True, False, False], [True, False, False, False], [False] * 4]])
    scores = PrototypeHead(6)(samples, shots).detach()
    for query in range(12):
        point = samples.reshape(12, 6)[query]
        for way, count in ((0, 2), (1, 1)):
            distance = (point - samples[0, way, :count].mean(dim=0)).square().sum()
            assert float(scores[0, way, query]) == pytest.approx(-float(distance) / 6, rel=1e-4)
        assert float(scores[0, 2, query]) == float("-inf")


def test_shots_are_not_of_episodes(tmp_path: Path) -> None:
    names = ["mini", "cifar100", "micro/vgg", "vgg-gate"]

    def part_names(**options: Any) -> list[str]:
        request = make_request(names, "micro-clip", output=tmp_path / "r", settings=Settings().changed(**options))
        return [part.name for part in parts_of(request)]

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
