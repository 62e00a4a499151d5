"""GATE's recipe at GATE's size: heads, metrics of its tables 2 and 3, and what trackers show of a training."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import gate_runner
from gate_runner.benchmarks import PACKS
from gate_runner.errors import UsageError
from gate_runner.reports import tiers
from gate_runner.reports.contents import gather
from gate_runner.runs.results import Result
from gate_runner.runs.stored import read_runs
from gate_runner.settings import Settings
from gate_runner.tasks import few_shot, maps
from gate_runner.tasks.losses_on_test import losses_on_test
from gate_runner.tasks.recipes import checked, head_size
from gate_runner.tasks.scoring import mean_of
from gate_runner.trackers import _curve, _scores
from paired_scores.metrics import wilson
from vision_adapters.heads import SegmentationHead
from vision_adapters.training import EncoderWithHead, gate_recipe
from vision_adapters.training.outcome import Kept

from ._folders import result, write_run

GATE = Settings(tune="full", recipe="gate")
SMALL = {"steps": 2, "validate_every": 2, "batch_size": 4, "head_width": 16, "head_depth": 1}


@pytest.mark.parametrize(
    ("task", "size"),
    [
        ("segmentation", (1024, 8, 8)), ("medical-segmentation", (1024, 8, 8)), ("relational", (512, 4, 8)),
        ("relational-typed", (512, 4, 8)), ("video-regression", (512, 4, 8)), ("video-classification", (512, 4, 8)),
        ("depth", (128, 2, 4)),
    ],
)  # fmt: skip
def test_heads_have_gates_size_with_its_recipe_alone(task: str, size: tuple[int, ...]) -> None:
    assert head_size(GATE, task) == size
    assert head_size(Settings(tune="full"), task) == head_size(Settings(), task) == (128, 2, 4)
    smaller = GATE.changed(recipe_fields={"head_width": "64", "head_depth": 3})
    assert head_size(smaller, task)[:2] == (64, 3)


def test_the_decoder_of_segmentation_alone_learns_ten_times_as_fast() -> None:
    assert gate_recipe("vit", "segmentation").head_lr_scale == gate_recipe("vit", "medical_segmentation").head_lr_scale
    assert gate_recipe("vit", "segmentation").head_lr_scale == 10
    assert {gate_recipe("vit", task).head_lr_scale for task in ("classification", "relational", "video")} == {1.0}


@pytest.mark.parametrize("fields", [{"head_width": "0"}, {"head_width": 20}, {"head_depth": "deep"}])
def test_sizes_that_no_head_has_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"recipe: {next(iter(fields))} is"):
        checked(fields)


def test_tokens_are_enlarged_before_the_transformer() -> None:
    head = SegmentationHead(12, 3, grid=(2, 4), size=(32, 32), tokens=(16, 16), width=16)
    assert head.position.shape == (1, 256, 16)
    assert head(torch.randn(2, 8, 12)).shape == (2, 3, 32, 32)
    with pytest.raises(ValueError, match="for a grid of 2 x 4"):
        head(torch.randn(2, 256, 12))


def trained(name: str, folder: Path, **options: Any) -> Result:
    (finished,) = gate_runner.run(
        name, encoder="micro-dense/random", output=folder, show=False, device="cpu",
        **{"limit": 12, "tune": "full", "recipe": "gate", "recipe_fields": SMALL, **options},
    )  # fmt: skip
    assert finished.status == "ok", finished.reason
    return finished


def test_maps_are_decoded_at_gates_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []

    def small(*arguments: Any, **named: Any) -> SegmentationHead:
        made.append(named)
        tokens = named["tokens"] and (8, 8)
        return SegmentationHead(*arguments, **{**named, "width": 16, "depth": 1, "heads": 4, "tokens": tokens})

    monkeypatch.setattr(maps, "SegmentationHead", small)
    fields = {"steps": 1, "validate_every": 1, "batch_size": 2}
    trained("micro/ade20k", tmp_path / "gate", recipe_fields=fields)
    quick = {**fields, "head_start": "random"}
    trained("micro/ade20k", tmp_path / "quick", recipe="quick", recipe_fields=quick)
    assert [(head["width"], head["depth"], head["tokens"]) for head in made] == [
        (1024, 8, (64, 64)), (128, 2, None),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["ade20k", "acdc", "clevr-math", "iwildcam", "flickr30k", "nycc", "cifar100"])
def test_the_test_loss_is_a_metric_of_gates_recipe(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "_TOKENS", 8)
    scores = {score.metric: score for score in trained(f"micro/{name}", tmp_path / "run").scores}
    loss = scores["loss"]
    assert loss.direction == "lower"
    assert 0 < loss.low <= loss.value <= loss.high
    assert loss.chance > 0
    if name == "acdc":
        assert {"mean_acc", "overall_acc"} <= scores.keys()
        assert 0 <= scores["mean_acc"].value <= 1
    if name in ("flickr30k", "nycc"):
        for metric in ("image_to_text", "text_to_image"):
            assert scores[metric].value <= scores[f"{metric}@5"].value
            assert scores[f"{metric}@5"].chance == pytest.approx(min(1.0, 5 * scores[metric].chance))
    assert "loss" in gate_runner.report(tmp_path / "run", pictures=0)


@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("ade20k", {"loss", "ce_loss", "focal_loss", "dice_loss"}), ("acdc", {"loss", "dice_loss"}),
        ("clevr", {"loss", *(f"{kind}_loss" for kind in ("colour", "count", "material", "shape", "size", "yes/no"))}),
        ("happy", {"loss", "individual_loss", "species_loss"}), ("iwildcam", {"loss", "mse_loss"}),
        ("flickr30k", {"loss", "image_to_text_loss", "text_to_image_loss"}),
        ("nycc", {"loss", "image_to_text_loss", "text_to_image_loss"}),
        ("mini-gate", {"loss"}),
    ],
)  # fmt: skip
def test_losses_of_table_3_are_metrics_by_term_type_and_direction(
    name: str, terms: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = few_shot.drawn_splits
    monkeypatch.setattr(maps, "_TOKENS", 8)
    monkeypatch.setattr(few_shot, "drawn_splits", lambda job: [(*row[:2], 3, row[3]) for row in splits(job)])
    limit = 60 if name == "mini-gate" else 12
    fields = {**SMALL, "steps": 1, "validate_every": 1, "batch_size": 2}
    scores = trained(f"micro/{name}", tmp_path / "run", limit=limit, recipe_fields=fields).scores
    losses = {score.metric: score for score in scores if score.metric.endswith("loss")}
    assert set(losses) == terms
    assert all(score.direction == "lower" and score.value > 0 and score.chance > 0 for score in losses.values())
    if name == "happy":
        mean = (losses["individual_loss"].value + losses["species_loss"].value) / 2
        assert losses["loss"].value == pytest.approx(mean, rel=1e-5)
    if name == "flickr30k":
        mean = (losses["image_to_text_loss"].value + losses["text_to_image_loss"].value) / 2
        assert losses["loss"].value == pytest.approx(mean, rel=1e-5)


def test_a_type_without_questions_in_a_batch_does_not_count() -> None:
    x, y = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]]), torch.tensor([0, 1, 1])
    job: Any = SimpleNamespace(predict_size=1, seed=0)

    def of_class_one(logits: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, truth) if bool((truth == 1).all()) else torch.tensor(float("nan"))

    module = nn.Linear(2, 2, bias=False)
    nn.init.eye_(module.weight)
    (score,) = losses_on_test(job, module, [Kept(0, 0.0, {})], (x,), y, {"one_loss": of_class_one})
    assert score.value == pytest.approx(float(F.cross_entropy(x[1:], y[1:])), rel=1e-6)


def test_a_test_loss_is_the_mean_over_batches_and_chance_is_blind() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(10, 5, generator=generator), torch.randint(3, (10,), generator=generator)
    module = nn.Linear(5, 3)
    job: Any = SimpleNamespace(predict_size=4, seed=0)
    (score,) = losses_on_test(job, module, [Kept(0, 0.0, {})], (x,), y, {"loss": F.cross_entropy})
    with torch.no_grad():
        assert score.value == pytest.approx(float(F.cross_entropy(module(x), y)), rel=1e-5)
        blind = [module(part).mean(0, keepdim=True).expand(len(part), -1) for part in x.split(4)]
        expected = float(F.cross_entropy(torch.cat(blind), y))
    assert score.chance == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("name", "limit"), [("clevr-math", 12), ("mini", 60), ("nycc", 12)])
def test_the_headline_can_be_the_mean_of_the_three_best_checkpoints(
    name: str, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[int] = []
    features = EncoderWithHead.features

    def counted(module: EncoderWithHead, rows: torch.Tensor) -> torch.Tensor:
        embedded.append(0 if torch.is_grad_enabled() else rows.shape[:-3].numel())
        return features(module, rows)

    monkeypatch.setattr(EncoderWithHead, "features", counted)
    fields = {**SMALL, "steps": 2, "validate_every": 1, "lr": 3e-3, "ensemble": "3"}
    three = trained(f"micro/{name}", tmp_path / "run", recipe_fields=fields, limit=limit)
    ensembles = {row["checkpoints"]: row[three.scores[0].metric] for row in three.training["ensembles"]}
    assert sorted(ensembles) == [1, 3]
    assert three.scores[0].value == ensembles[3]
    if name == "mini":  # episodes share images: the splits' own, for each validation and each checkpoint of the test
        assert sum(embedded) <= (3 + 3) * limit
    (run,) = read_runs([tmp_path / "run"])
    assert float(np.mean(run.outcomes(three))) == pytest.approx(ensembles[3])
    if name == "nycc":
        best = trained("micro/nycc", tmp_path / "best", recipe_fields={**fields, "ensemble": 1})
        assert best.scores[0].value == ensembles[1]
        losses = [score.value for result in (best, three) for score in result.scores if score.metric == "loss"]
        assert losses[0] != losses[1]


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("digits", {"recipe_fields": {"ensemble": "2"}}, "ensemble is '2', expected 1, 3 or 5"),
        ("digits", {"tune": "frozen"}, "--tune full"),
        ("micro/odinw-stars", {}, "boxes of detection"),
        ("digits", {"save_heads": True}, "head or encoder is one"),
    ],
)
def test_means_of_checkpoints_that_there_are_not_are_refused(
    name: str, changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    options = {"tune": "full", "recipe_fields": {"ensemble": "3"}, **changes}
    with pytest.raises(UsageError, match=words):
        gate_runner.run(name, encoder="micro-clip/random", output=tmp_path, show=False, limit=12, **options)


def test_tiers_have_means_and_ranks(tmp_path: Path) -> None:
    names = [f"micro/{name}" for name in PACKS["small"]]
    runs = [
        write_run(tmp_path / label, dict.fromkeys(names, skill), encoder=label)
        for label, skill in (("poor", 0.2), ("good", 0.9))
    ]
    runs.append(write_run(tmp_path / "part", dict.fromkeys(names[:3], 0.5), encoder="part"))
    contents = gather(read_runs(runs), tests=False)
    (tier,) = tiers.tiers(contents)
    assert (tier.name, tier.benchmarks) == ("micro/small", 8)
    assert tier.ranks == {"poor": 2, "good": 1, "part": None}
    cells = [(row, row.cells["good"].value) for row in contents.rows]
    assert tier.means["good"] == pytest.approx(
        sum(100 * value if row.direction == "higher" else 100 * max(0.0, 1 - value / 3) for row, value in cells) / 8
    )
    assert "rank 1" in tiers.shown(contents)
    assert tiers.shown(gather(read_runs(runs[2:]), tests=False)) == ""


def test_the_full_pool_is_a_tier_of_its_own(tmp_path: Path) -> None:
    names = [f"micro/{name}" for name in PACKS["full"]]
    runs = [
        write_run(tmp_path / label, dict.fromkeys(names, skill), encoder=label)
        for label, skill in (("poor", 0.2), ("good", 0.9))
    ]
    contents = gather(read_runs(runs), tests=False)
    listed = {tier.name.removeprefix("micro/"): tier for tier in tiers.tiers(contents)}
    assert {name: tier.benchmarks for name, tier in listed.items()} == {"small": 8, "base": 15, "big": 21, "full": 31}
    assert listed["full"].ranks == {"poor": 2, "good": 1}
    assert "full (31)" in tiers.shown(contents)


def test_trackers_show_watts_and_gradients() -> None:
    layer = "encoder.blocks.0"
    gradients = [{"step": 50, "norm": 2.0, layer: 0.5}, {"step": 100, "norm": 1.0, layer: 0.25}]
    finished, _ = result(
        "digits", 0.5, energy={"joules": {"gpu": {"train": 300.0, "total": 400.0}}, "unmeasured": {}},
        seconds={"train": 3.0, "total": 8.0}, training={"gradients": gradients},
    )  # fmt: skip
    scores = dict(_scores(finished))
    assert (scores["gpu watts"], scores["gpu watts train"]) == (50.0, 100.0)
    assert [row for row in _curve(finished) if row[1] == "gradient encoder.blocks.0"] == [
        (50, "gradient encoder.blocks.0", 0.5), (100, "gradient encoder.blocks.0", 0.25),
    ]  # fmt: skip


def test_a_test_losss_interval_is_of_the_mean_that_counts_samples() -> None:
    """The last batch of one sample counted as much as the others, and the interval was another mean's."""
    x = torch.cat([torch.tensor([[2.0, 0.0]] * 9), torch.tensor([[-30.0, 0.0]])])
    module = nn.Linear(2, 2, bias=False)
    nn.init.eye_(module.weight)
    job: Any = SimpleNamespace(predict_size=3, seed=0)
    y = torch.zeros(10, dtype=torch.int64)
    (score,) = losses_on_test(job, module, [Kept(0, 0.0, {})], (x,), y, {"loss": F.cross_entropy})
    drawn = np.random.default_rng(1).multinomial(4, [0.25] * 4, size=4000)
    means = [float((row @ [0.3808, 0.3808, 0.3808, 30.0]) / (row @ [3, 3, 3, 1])) for row in drawn]
    assert (score.low, score.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), rel=1e-3)


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_a_mean_of_shares_that_are_all_right_or_wrong_is_as_uncertain_as_an_accuracy(right: float) -> None:
    """A retrieval that found everything in 20 queries had the interval [1, 1]."""
    estimate = mean_of("recall@1", np.array([right] * 20 + [np.nan]), "higher", 0)
    assert (estimate.low, estimate.high) == wilson(right, 20)
    assert len(estimate.outcomes) == 21
    error = mean_of("mae", np.array([right] * 20), "lower", 0)
    assert (error.low, error.high) == (right, right)
