"""Detection: a head on any frozen encoder's patches, or a whole detector, scored by COCO's mean average precision."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gate_data.boxes.objects import Objects
from gate_data.ragged import Ragged
from gate_data.request import SplitName
from gate_runner.detection.coco_map import needed
from gate_runner.detection.detecting import detect
from gate_runner.detection.knowledge import KINDS, known_phrases
from gate_runner.detection.scoring import guessed, in_pixels, judge, match
from gate_runner.detection.shots import Shown, shown_of
from gate_runner.detection.trainable import unchanged
from gate_runner.detection.tuning import tune_detector
from gate_runner.encoders.detectors import Detector
from gate_runner.encoders.phrases import Phrase, phrases
from gate_runner.errors import UsageError
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.fitting import fit_head
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.training import predict
from vision_adapters.detection import DenseHead, Detections, SetHead, mean_average_precision
from vision_adapters.heads import seeded
from vision_adapters.training.head import Inputs

_MOST = 100
_QUERIES = 16
_WIDTH = 96


def run(job: Job) -> Outcome:
    """Boxes with classes. Chance: boxes of each class's mean shape where training has its objects.

    Raises:
        MissingCapabilityError: the encoder has no patches, or what evaluates is not installed.
        UsageError: an option that a head, or a detector, does not have; the message names it.
    """
    needed()
    shown = shown_of(job)
    job = replace(job, data=shown.data)
    if job.encoder.detector is not None:
        return _with_detector(job, shown, job.encoder.detector)
    if job.settings.tune in ("linear", "prompt"):
        raise UsageError(
            f"--tune {job.settings.tune} trains a part of a detector (hf-detector:…); an encoder with a --head has "
            "frozen, bias, norm, last-block, lora or full"
        )
    if shown.shots == "0":
        raise UsageError("--shots 0 is for detectors that read class names (hf-detector:…); a --head has to be trained")
    return _with_head(job, shown)


def _with_head(job: Job, shown: Shown) -> Outcome:
    data = job.data
    classes = len(data.classes)
    backbone = make_backbone(job, "patches")
    head = seeded(partial(_head, job.settings.head, backbone.width, classes, backbone.grid, _most_objects(data.train)),
                  job.seed)  # fmt: skip

    def boxes_of(module: nn.Module, rows: Inputs, name: SplitName) -> Ragged:
        packed = predict(module, rows, lambda output: _packed(head.detections(output, most=_MOST)), job.predict_size)
        output = packed.numpy()
        return in_pixels(output[..., :4], output[..., 4], output[..., 5], getattr(data, name).targets.sizes)

    def validate(module: nn.Module, held: Inputs) -> float:
        truth = data.validation.targets
        value = mean_average_precision(match(truth, boxes_of(module, held, "validation")), np.ones((1, len(truth))))[0]
        return 0.0 if np.isnan(value) else float(value)

    boxes = data.train.targets.padded()
    fitted = fit_head(job, backbone, head, boxes, head.loss, validate, "higher")
    with job.timed("test"):
        truth = data.test.targets
        judged = judge(
            truth,
            boxes_of(fitted.module, (backbone.rows("test"),), "test"),
            guessed(data.train.targets, truth, classes),
            data.classes,
            job.benchmark.metrics,
            job.seed,
        )
    training: dict[str, Any] = {
        "head": job.settings.head,
        "head_parameters": sum(p.numel() for p in head.parameters() if p.requires_grad),
        **fitted.about("map"),
        **shown.about,
        **judged.more,
    }
    return Outcome(judged.scores, judged.outcomes, training, judged.predicted)


def _with_detector(job: Job, shown: Shown, detector: Detector) -> Outcome:
    data, tune = job.data, job.settings.tune
    read, prompts = _asked(job, detector)
    about: dict[str, Any] = {}
    if tune == "frozen":
        if shown.shots not in ("0", "full"):
            raise UsageError(f"--shots {shown.shots} trains a detector: say how with --tune linear, prompt or full")
        shown.about["shots"] = "0"
    elif tune not in ("linear", "prompt", "full"):
        raise UsageError(f"--tune {tune} is for encoders; a detector has frozen, linear, prompt or full")
    with unchanged(detector):
        if tune != "frozen" and shown.shots != "0":
            with job.timed("train"):
                about = tune_detector(job, detector, read)
        with job.timed("test"):
            boxes = detect(detector, data.test.images, data.test.targets.sizes, read, partial(job.progress, "test"))
    with job.timed("test"):
        blind = guessed(data.train.targets, data.test.targets, len(data.classes))
        judged = judge(data.test.targets, boxes, blind, data.classes, job.benchmark.metrics, job.seed)
    training = {
        "detector": detector.family,
        "prompts": prompts,
        "steps": 0,
        **about,
        **shown.about,
        **judged.more,
    }
    return Outcome(judged.scores, judged.outcomes, training, judged.predicted)


def _asked(job: Job, detector: Detector) -> tuple[list[Phrase], dict[str, Any]]:
    """What a detector reads for the classes, and what the result file says of it."""
    settings, classes, captions = job.settings, job.data.classes, job.training.get("captions")
    about: dict[str, Any] = {"kind": settings.prompts}
    if settings.prompts not in KINDS:
        read = phrases(classes, captions if settings.prompts == "overrides" else None)
        return read, {**about, "read": [phrase.text for phrase in read] if detector.reads else []}
    if not detector.reads:
        raise UsageError(
            f"--prompts {settings.prompts} is for detectors that read class names; {detector.family} has none"
        )
    assert settings.knowledge_from is not None
    texts, described = known_phrases(job.benchmark.id, classes, settings.prompts, settings.knowledge_from, captions)
    read, cut = detector.fitting(texts)
    return read, {**about, "from": settings.knowledge_from, "known": described, "shortened": cut,
                   "read": [phrase.text for phrase in read]}  # fmt: skip


def _head(kind: str, width: int, classes: int, grid: tuple[int, int], objects: int) -> DenseHead | SetHead:
    if kind == "dense":
        finer = 2 if max(grid) <= 24 else 1
        return DenseHead(width, classes, grid=grid, finer=finer, width=_WIDTH, depth=1)
    return SetHead(width, classes, grid=grid, queries=max(_QUERIES, 2 * objects), width=_WIDTH, depth=2)


def _most_objects(split: Any) -> int:
    truth: Objects = split.targets
    counted = np.bincount(truth.picture[~truth.rows.columns["crowd"]], minlength=len(truth))
    return int(counted.max(initial=1))


def _packed(boxes: Detections) -> Tensor:
    """As one tensor ``[n, q, 6]``: box, score, label."""
    return torch.cat([boxes.boxes, boxes.scores[..., None], boxes.labels[..., None].to(boxes.boxes)], dim=-1)
