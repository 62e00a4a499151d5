"""Detection in the runner: heads on frozen patches, few shots, comparison and the report's images."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import gate_runner
from gate_data.boxes.objects import EMPTY, Objects
from gate_data.ragged import Ragged
from gate_runner.benchmarks import PACKS, DataRequest, find_benchmark, resolve
from gate_runner.detection.coco_map import coco_metrics
from gate_runner.detection.scoring import guessed, judge
from gate_runner.detection.shots import draw_shots, shown_of
from gate_runner.errors import DataError, UsageError
from gate_runner.runs.stored import read_run
from gate_runner.settings import Settings
from gate_runner.tasks.drawing import boxes as draw
from gate_runner.tasks.registry import find_task_type
from gate_runner.tasks.variants import shots_and_split
from paired_scores.metrics import wilson
from vision_adapters.detection import mean_average_precision

pytest.importorskip("faster_coco_eval")

SHORT = {"lr": "1e-3", "steps": "12", "validate_every": "6", "batch_size": "8"}


class Grid(torch.nn.Module):
    """Colours and edges of an 8 x 8 grid."""

    image_size = 64

    def encode_image(self, images: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.adaptive_avg_pool2d(images, 4).flatten(1)

    def encode_patches(self, images: torch.Tensor) -> tuple[torch.Tensor, tuple[int, int]]:
        edges = torch.cat([images, images.diff(dim=2, append=images[:, :, -1:]).abs()], dim=1)
        both = [torch.nn.functional.adaptive_avg_pool2d(edges, 8), torch.nn.functional.adaptive_max_pool2d(edges, 8)]
        return torch.cat(both, 1).flatten(2).transpose(1, 2), (8, 8)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The same set at two learning rates, with few shots, too."""
    folder = tmp_path_factory.mktemp("detection")
    folders = []
    for rate in ("1e-3", "3e-3"):
        done = gate_runner.run(
            "micro/odinw-lot", encoder=Grid(), output=folder / rate, limit=32, show=False,
            recipe_fields={**SHORT, "lr": rate}, shots=("full", "3"), device="cpu",
        )  # fmt: skip
        assert [result.status for result in done] == ["ok", "ok"], [result.reason for result in done]
        folders.append(done.folder)
    return folders


def test_the_result_says_all_that_a_reader_needs(runs: list[Path]) -> None:
    stored = read_run(runs[0])
    few, full = sorted(stored.results, key=lambda result: result.name, reverse=True)
    assert (full.name, few.name) == ("micro/odinw-lot", "micro/odinw-lot@3")
    assert [score.metric for score in full.scores] == ["map", "ap50", "ap75"]
    for score in full.scores:
        assert 0 <= score.low <= score.value <= score.high <= 1
        assert 0 <= score.chance < 0.5
    training = full.training
    assert training["coco"]["map"] == full.scores[0].value
    assert set(training["classes"]) == {"square", "circle"}
    assert np.mean(list(training["classes"].values())) == pytest.approx(full.scores[0].value, abs=1e-12)
    assert (training["head"], training["split"], training["shots"]) == ("dense", "test", "full")
    outcomes = stored.outcomes(full)
    assert isinstance(outcomes, Ragged)
    assert mean_average_precision(outcomes, np.ones((1, 32)))[0] == pytest.approx(full.scores[0].value, abs=1e-12)
    assert few.data["train"] == 32  # the data set is the same; what was drawn of it stands in the draw
    draw_said = few.training["draw"]
    assert draw_said["origin"].startswith("our draw by ELEVATER's rule, seed 0")
    assert 3 <= len(draw_said["train"]) <= 6
    assert len(draw_said["sha256"]) == 64


def test_runs_are_compared_on_resampled_pictures_and_drawn(runs: list[Path]) -> None:
    comparison = gate_runner.compare(*runs, permutations=49, resamples=30, only=["odinw-lot"])
    (contrast,) = comparison.contrasts
    assert contrast.test.samples == 32
    values = [read_run(run).named("micro/odinw-lot")[0].scores[0].value for run in runs]
    assert [contrast.test.first, contrast.test.second] == pytest.approx(values, abs=1e-12)
    page = gate_runner.report(runs[0], pictures=2)
    assert page.count("<img ") >= 8  # two worst and two best of both
    assert "truth, and what was found" in page


def test_ground_truth_stands_beside_the_detections() -> None:
    data = find_benchmark("odinw-lot").load("micro", DataRequest(limit=3))
    plain = draw(data, {}, 0)
    assert plain.caption.startswith("truth; of this image no detections were kept")
    left, right = np.split(plain.pixels, 2, axis=1)
    assert not np.array_equal(left, right)  # boxes on the left alone
    shown = draw(data, {"drawn": {"0": [[4.0, 4.0, 20.0, 20.0, 1, 0.9]]}}, 0)
    drawn = np.split(shown.pixels, 2, axis=1)
    assert np.array_equal(drawn[0], left)
    assert not np.array_equal(drawn[1], right)


def test_of_labels_in_one_place_the_best_is_read() -> None:
    data = find_benchmark("odinw-lot").load("micro", DataRequest(limit=3))

    def drawn(*rows: list[float]) -> np.ndarray:
        return np.split(draw(data, {"drawn": {"0": list(rows)}}, 0).pixels, 2, axis=1)[1]

    best, weaker = [10.0, 20.0, 20.0, 20.0, 0, 0.9], [10.0, 20.0, 20.0, 20.0, 1, 0.4]
    label = (slice(46, 60), slice(30, 110))  # above the box, three screen pixels for one of the image's
    assert np.array_equal(drawn(best, weaker)[label], drawn(best)[label])
    assert not np.array_equal(drawn(weaker)[label], drawn(best)[label])


def test_boxes_of_the_stand_ins_are_exact_and_the_same_under_a_limit() -> None:
    assert PACKS["micro/odinw"] == ("odinw-shapes", "odinw-colours", "odinw-lot", "odinw-stars")
    for name in PACKS["micro/odinw"]:
        full = find_benchmark(name).load("micro", DataRequest(limit=40))
        few = find_benchmark(name).load("micro", DataRequest(limit=12))
        assert few.digest() == full.limited(12).digest()
        truth = full.train.targets
        assert (truth.counts(len(full.classes)) > 0).all()
        box = truth.rows.columns["box"]
        assert (box[:, :2] >= 0).all()
        assert (box[:, :2] + box[:, 2:] <= 64).all()
        assert (truth.rows.columns["area"] <= box[:, 2] * box[:, 3]).all()
    lot = find_benchmark("odinw-lot").load("micro", DataRequest(limit=40)).train
    for image, row in zip(lot.images, lot.targets.rows, strict=True):
        grey = image.float().mean(dim=0)
        for left, top, wide, high in row["box"].astype(int).tolist():
            inside = grey[top : top + high, left : left + wide]
            assert float(inside.mean()) > float(grey.median()) + 20  # bright things on a dark ground
    empty = find_benchmark("odinw-colours").load("micro", DataRequest(limit=40)).train.targets
    assert (empty.rows.lengths == 0).any()


def test_guesses_know_shapes_and_places_but_no_picture() -> None:
    train = Objects.of(
        [{"box": [(0, 0, 20, 10)], "label": [1]}, {"box": [(2, 2, 20, 10)], "label": [1]}], [(100, 50)] * 2
    )
    test = Objects.of([{"box": [(0, 0, 5, 5)], "label": [0]}, {"box": [], "label": []}], [(10, 10), (20, 20)])
    guesses = guessed(train, test, 3)
    assert guesses.columns["label"].tolist() == [1, 1]
    assert guesses[0]["box"][0].tolist() == pytest.approx([0.1, 0.2, 2.0, 2.0])
    assert guesses[1]["box"][0].tolist() == pytest.approx([0.2, 0.4, 4.0, 4.0])
    with pytest.raises(DataError, match="1 training images hold no object"):
        guessed(test.take(np.array([1])), test, 3)


def test_intervals_are_those_of_pictures_drawn_again() -> None:
    data = find_benchmark("odinw-lot").load("micro", DataRequest(limit=20))
    truth = data.test.targets
    boxes = guessed(data.train.targets, truth, 2)
    judged = judge(truth, boxes, boxes, data.classes, ("map", "ap50"), 0)
    for score in judged.scores:
        assert score.value == score.chance == coco_metrics(truth, boxes, data.classes).values[score.metric]
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(20, np.full(20, 1 / 20), size=1000)
    jittered = {**boxes.columns, "score": rng.random(len(boxes.columns["score"]))}  # copies of ties have no order
    boxes = Ragged(jittered, boxes.lengths)
    judged = judge(truth, boxes, None, data.classes, ("map", "ap50"), 0)
    some = []
    for row in drawn[:40]:
        index = np.repeat(np.arange(20), row)
        some.append(coco_metrics(truth.take(index), boxes.take(index), data.classes).values["map"])
    ours = mean_average_precision(judged.outcomes, drawn[:40].astype(float))
    np.testing.assert_allclose(ours, some, rtol=0, atol=1e-12)
    with pytest.raises(UsageError, match="detection has no metric 'acc@1'"):
        judge(truth, boxes, None, data.classes, ("acc@1",), 0)


def test_a_detector_that_finds_nothing_scores_zero() -> None:
    data = find_benchmark("odinw-colours").load("micro", DataRequest(limit=8))
    truth = data.test.targets
    assert (truth.rows.lengths == 0).any()  # images without objects count, too
    nothing = Ragged.of([{"box": EMPTY["box"], "label": EMPTY["label"], "score": np.zeros(0)}] * len(truth))
    judged = judge(truth, nothing, None, data.classes, ("map", "ap50"), 0)
    ends = wilson(0.0, int((truth.rows.lengths > 0).sum()))  # images that have something to find
    assert [(score.value, score.low, score.high) for score in judged.scores] == [(0.0, *ends)] * 2
    assert judged.more["detections"] == 0
    assert all(rows == [] for rows in judged.more["drawn"].values())
    assert draw(data, judged.more, 0).caption.startswith("truth, and what was found")


def test_shots_follow_the_rule_and_take_what_there_is() -> None:
    rng = np.random.default_rng(0)
    pictures = [{"box": [(0, 0, 1, 1)] * 2, "label": rng.integers(0, 3, 2)} for _ in range(40)]
    truth = Objects.of(pictures, [(4, 4)] * 40)
    for shots in (1, 5):
        rows = draw_shots(truth, shots, 3, ("a", "b", "c"))
        shown = np.zeros(3, dtype=int)
        for objects in truth.take(rows).rows:
            shown[np.unique(objects["label"])] += 1
        assert (shown >= shots).all()
        assert len(rows) <= 3 * shots
    assert draw_shots(truth, 5, 3, ("a", "b", "c")).tolist() != draw_shots(truth, 5, 30, ("a", "b", "c")).tolist()
    few = Objects.of([*pictures[:6], {"box": [(0, 0, 1, 1)], "label": [3]}], [(4, 4)] * 7)
    for shots in (2, 5, 40):  # as GLIP does: of a class that fewer images show, all are taken
        order, left, drawn = list(range(7)), dict.fromkeys(range(4), shots), []
        random.Random(3).shuffle(order)
        for row in order:
            own = {int(label) for label in few.take([row]).rows.columns["label"]}
            if any(left[label] > 0 for label in own):
                drawn.append(row)
                left = {label: count - (label in own) for label, count in left.items()}
        assert 6 in drawn
        assert draw_shots(few, shots, 3, ("a", "b", "c", "d")).tolist() == sorted(drawn)


@pytest.mark.parametrize(("shots", "validated"), [("1", 1), ("3", 1), ("5", 1), ("10", 3), ("full", None)])
def test_few_shots_validate_on_few_images(shots: str, validated: int | None) -> None:
    data: Any = find_benchmark("odinw-lot").load("micro", DataRequest(limit=200))
    job: Any = SimpleNamespace(data=data, training={"shots": shots}, seed=3, settings=Settings())
    shown = shown_of(job).data.validation
    if validated is None:
        assert len(shown) == len(data.validation)
        return
    rows = draw_shots(data.validation.targets, validated, 3, data.classes)
    assert len(shown) == len(rows) < len(data.validation)
    assert len(shown) <= validated * len(data.classes)


def test_variants_have_names_of_their_own() -> None:
    assert list(shots_and_split(Settings(shots=["0,5", "full"]))) == ["0", "5", ""]
    assert [benchmark.id for benchmark in resolve(["micro/odinw@5"])] == [f"{name}@5" for name in PACKS["micro/odinw"]]
    benchmark = find_benchmark("odinw-lot@valid-1")
    assert (benchmark.training["shots"], benchmark.training["split"]) == ("1", "valid")
    with pytest.raises(UsageError, match="has no variant 'train'"):
        find_benchmark("odinw-lot@train")
    with pytest.raises(UsageError, match="benchmark 'ade20k' has no variant '5'; there is ade20k@zero-shot-seg"):
        find_benchmark("ade20k@5")
    with pytest.raises(UsageError, match="benchmark 'clevr-math' has no variants"):
        find_benchmark("clevr-math@5")
    with pytest.raises(UsageError, match="--shots does not apply to 'ade20k'"):
        find_task_type("segmentation").variants(find_benchmark("ade20k"), Settings(shots="5"))
    with pytest.raises(UsageError, match=r"--shots is a list of numbers and full, e\.g\. 0,5,full, not 'few'"):
        Settings(shots="few")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"shots": "0"}, "--shots 0 is for detectors"),
    ],
)
def test_what_a_head_cannot_do_is_a_reason(options: dict[str, str], reason: str, tmp_path: Path) -> None:
    done = gate_runner.run("micro/odinw-lot", encoder=Grid(), output=tmp_path, limit=20, show=False, **options)
    assert done.results[0].status == "failed"
    assert done.results[0].reason.startswith(reason)


def test_more_shots_than_pictures_take_all_and_say_so(tmp_path: Path) -> None:
    done = gate_runner.run(
        "micro/odinw-lot", encoder=Grid(), output=tmp_path, limit=20, show=False, shots="40", recipe_fields=SHORT
    )
    assert done.results[0].status == "ok", done.results[0].reason
    draw = done.results[0].training["draw"]
    assert len(draw["train"]) <= draw["drawn_from"][0] <= 20
    assert all(count < 40 for count in draw["fewer_pictures_than_shots"].values())
    assert draw["fewer_pictures_than_shots"]


def test_without_patches_it_says_so(tmp_path: Path) -> None:
    class Pooled(torch.nn.Module):
        image_size = 32

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images.mean(dim=(2, 3))

    done = gate_runner.run("micro/odinw-lot", encoder=Pooled(), output=tmp_path, limit=8, show=False)
    assert "gives pooled features only" in done.results[0].reason


def test_predictions_of_a_result_are_json(runs: list[Path]) -> None:
    paths = sorted((runs[0] / "results").glob("*.json"))
    assert len(paths) == 2
    for path in paths:
        drawn = json.loads(path.read_text())["training"]["drawn"]
        assert 0 < len(drawn) <= 18
        assert all(len(row) == 6 for rows in drawn.values() for row in rows)


def test_a_benchmark_without_test_objects_fails_with_its_reason() -> None:
    data = find_benchmark("odinw-lot").load("micro", DataRequest(limit=4))
    empty = Objects.of([{"box": [], "label": []}] * 4, [(64, 64)] * 4)
    data = replace(data, test=replace(data.test, targets=empty))
    with pytest.raises(DataError, match="4 images hold no object to be found"):
        judge(empty, guessed(data.train.targets, empty, 2), None, data.classes, ("map",), 0)
