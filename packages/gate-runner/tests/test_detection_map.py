"""COCO's average precision: by faster-coco-eval and from matched outcomes, both held to pycocotools."""

from __future__ import annotations

import contextlib
import copy
import io
from typing import Any

import numpy as np
import pytest

from gate_data.boxes.objects import EMPTY, Objects
from gate_data.ragged import Ragged
from gate_runner.detection.coco_map import as_coco, coco_metrics, detections_as_coco
from gate_runner.detection.scoring import match
from gate_runner.errors import DataError
from vision_adapters.detection import mean_average_precision
from vision_adapters.detection.average_precision import at_half, at_three_quarters, average_precisions

pytest.importorskip("pycocotools")
pytest.importorskip("faster_coco_eval")

CLASSES = ("a", "b", "never seen", "c", "only crowds")


def sample_detections(seed: int, pictures: int = 40, ties: bool = True) -> tuple[Objects, Ragged]:
    """Empty images, crowds, ties of scores and of overlaps, classes without objects, more than 100 detections."""
    rng = np.random.default_rng(seed)
    truths, founds = [], []
    for picture in range(pictures):
        count = 0 if picture % 7 == 3 else int(rng.integers(0, 9))
        box = np.concatenate([rng.integers(0, 300, (count, 2)), rng.integers(4, 160, (count, 2))], axis=1).astype(float)
        label = rng.choice([0, 0, 0, 1, 3], count)
        crowd = rng.random(count) < 0.15
        if picture % 5 == 0 and count:
            label[0], crowd[0] = 4, True
        truths.append({"box": box, "label": label, "crowd": crowd})
        near = np.repeat(box, 2, axis=0) + rng.normal(0, 6, (2 * count, 4)) * rng.choice([0, 1], (2 * count, 1))
        near[:, 2:] = np.maximum(near[:, 2:], 1)
        far = np.concatenate([rng.integers(0, 300, (8, 2)), rng.integers(4, 160, (8, 2))], axis=1).astype(float)
        many = np.tile(far[:1], (130, 1)) if picture == 1 else np.zeros((0, 4))
        boxes = np.concatenate([near, far, many])
        labels = np.concatenate([np.repeat(label, 2), rng.integers(0, 5, 8), np.zeros(len(many), int)])
        score = rng.random(len(boxes))
        if ties:
            score = np.round(score, 1)
        if picture % 11 == 5:
            boxes, labels, score = boxes[:0], labels[:0], score[:0]
        founds.append({"box": boxes, "label": labels, "score": score})
    return Objects.of(truths, [(460, 460)] * pictures), Ragged.of(founds)


def reference(truth: Objects, ragged: Ragged) -> tuple[np.ndarray, np.ndarray]:
    """pycocotools' twelve numbers, and its precision at the recalls."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = copy.deepcopy(as_coco(truth, CLASSES))
        coco.createIndex()
        run = COCOeval(coco, coco.loadRes(detections_as_coco(ragged)), "bbox")
        run.evaluate()
        run.accumulate()
        run.summarize()
    return run.stats, run.eval["precision"][:, :, :, 0, -1]


@pytest.mark.parametrize("seed", range(6))
def test_all_twelve_numbers_are_pycocotools(seed: int) -> None:
    truth, detections = sample_detections(seed)
    stats, precision = reference(truth, detections)
    ours = coco_metrics(truth, detections, CLASSES)
    np.testing.assert_allclose([-1 if v is None else v for v in ours.values.values()], stats, rtol=0, atol=1e-12)
    for index, name in enumerate(CLASSES):
        wanted = precision[:, :, index]
        expected = wanted[wanted > -1].mean() if (wanted > -1).any() else None
        assert ours.classes[name] == (None if expected is None else pytest.approx(expected, abs=1e-12))
    assert ours.without_truth == ("never seen", "only crowds")


@pytest.mark.parametrize("seed", range(6))
def test_matched_outcomes_give_the_same_values(seed: int) -> None:
    truth, detections = sample_detections(seed)
    stats, precision = reference(truth, detections)
    outcomes, once = match(truth, detections), np.ones((1, len(truth)))
    values = [measure(outcomes, once)[0] for measure in (mean_average_precision, at_half, at_three_quarters)]
    np.testing.assert_allclose(values, stats[:3], rtol=0, atol=1e-12)
    each = average_precisions(outcomes, once)[0]
    np.testing.assert_allclose(each, precision[:, :, [0, 1, 3]].mean(axis=1).T, rtol=0, atol=1e-12)


def test_whole_weights_are_copies_of_pictures() -> None:
    truth, detections = sample_detections(11, 20, ties=False)
    rng = np.random.default_rng(0)
    outcomes = match(truth, detections)
    weights = rng.multinomial(20, np.full(20, 1 / 20), size=8).astype(float)
    for row, value in zip(weights, mean_average_precision(outcomes, weights), strict=True):
        index = np.repeat(np.arange(20), row.astype(int))
        stats, _ = reference(truth.take(index), detections.take(index))
        assert value == pytest.approx(stats[0], abs=1e-12)


def test_pictures_without_objects_and_without_detections() -> None:
    truth, detections = sample_detections(3)
    nothing_found = Ragged.of([{"box": EMPTY["box"], "label": EMPTY["label"], "score": np.zeros(0)}] * len(truth))
    nothing = coco_metrics(truth, nothing_found, CLASSES)
    assert nothing.values["map"] == 0.0
    assert mean_average_precision(match(truth, nothing_found), np.ones((1, len(truth))))[0] == 0.0
    empty = Objects.of([{"box": [], "label": []}] * 2, [(5, 5)] * 2)
    assert np.isnan(mean_average_precision(match(empty, detections.take(np.array([0, 1]))), np.ones((1, 2)))).all()
    with pytest.raises(DataError, match="2 images hold no object to be found"):
        coco_metrics(empty, detections.take(np.array([0, 1])), CLASSES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": np.array([7])}, "detection 0 is of class 7, expected 0 to 4"),
        ({"label": np.array([-2])}, "detection 0 is of class -2, expected 0 to 4"),
        ({"score": np.array([np.nan])}, r"detection 0 has the box \[0.0, 0.0, 4.0, 4.0\] and the score nan"),
    ],
)
def test_detections_that_cannot_be_scored_are_refused(change: dict[str, Any], message: str) -> None:
    truth = Objects.of([{"box": [(0, 0, 4, 4)], "label": [0]}], [(8, 8)])
    detection = {"box": np.array([[0.0, 0, 4, 4]]), "label": np.array([0]), "score": np.array([0.5])}
    with pytest.raises(DataError, match=message):
        coco_metrics(truth, Ragged.of([{**detection, **change}]), CLASSES)
    with pytest.raises(DataError, match="of 2 images, expected 1"):
        coco_metrics(truth, Ragged.of([detection, detection]), CLASSES)


def test_objects_are_checked() -> None:
    with pytest.raises(DataError, match=r"box \[0.0, 0.0, 0.0, 4.0\] has no area"):
        Objects.of([{"box": [(0, 0, 0, 4)], "label": [0]}], [(8, 8)])
    with pytest.raises(DataError, match="1 images have 2 sizes"):
        Objects.of([{"box": [], "label": []}], [(8, 8), (8, 8)])
    shown = Objects.of([{"box": [(0, 0, 4, 8), (1, 1, 1, 1)], "label": [1, 0], "crowd": [False, True]}], [(8, 16)])
    assert shown.padded().tolist() == [[[1.0, 0.25, 0.25, 0.5, 0.5]]]
    assert shown.counts(2).tolist() == [0, 1]
