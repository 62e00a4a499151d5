"""Detection: a head on any frozen encoder's patches, or a whole detector, scored by COCO's mean average precision."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor, nn

from gate_data.ragged import Ragged
from gate_data.readers.decode import decode
from gate_data.request import SplitName
from gate_runner.detection.coco_map import needed
from gate_runner.detection.knowledge import known_phrases
from gate_runner.detection.scoring import guessed, in_pixels, judge, validated
from gate_runner.detection.shots import Shown, shown_of
from gate_runner.detection.tuning import tune_detector, unchanged
from gate_runner.errors import UsageError
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.fitting import fit_head
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.training import predict
from knowledge_prompts.class_words import plainly_read
from vision_adapters.detection import DenseHead, Detections, topk_detections
from vision_adapters.heads import seeded
from vision_adapters.training.head import Inputs
from vision_features.encoders.detectors import MOST, Detector, Phrase, phrases

if TYPE_CHECKING:
    from gate_data.pictures import Pictures

_LOG = logging.getLogger(__name__)
_MOST = 100
_WIDTH = 96


def run(job: Job) -> Outcome:
    """Boxes with classes. Chance: boxes of each class's mean shape where training has its objects."""
    needed()
    shown = shown_of(job)
    job = replace(job, data=shown.data)
    if job.encoder.detector is not None:
        return _with_detector(job, shown, job.encoder.detector)
    if job.settings.tune in ("linear", "prompt"):
        raise UsageError(
            f"--tune {job.settings.tune} trains a part of a detector (hf-detector:…); an encoder has other modes"
        )
    if shown.shots == "0":
        raise UsageError("--shots 0 is for detectors that read class names (hf-detector:…); a head has to be trained")
    return _with_head(job, shown)


def _with_head(job: Job, shown: Shown) -> Outcome:
    data = job.data
    classes = len(data.classes)
    backbone = make_backbone(job, "patches")
    finer = 2 if max(backbone.grid) <= 24 else 1
    head = seeded(
        lambda: DenseHead(backbone.width, classes, grid=backbone.grid, finer=finer, width=_WIDTH, depth=1), job.seed
    )

    def boxes_of(module: nn.Module, rows: Inputs, name: SplitName) -> Ragged:
        packed = predict(module, rows, lambda output: _packed(head.detections(output, most=_MOST)), job.predict_size)
        output = packed.numpy()
        return in_pixels(output[..., :4], output[..., 4], output[..., 5], getattr(data, name).targets.sizes)

    def validate(module: nn.Module, held: Inputs) -> float:
        return validated(data.validation.targets, boxes_of(module, held, "validation"))

    boxes = data.train.targets.padded()
    fitted = fit_head(job, backbone, head, boxes, head.loss, validate, "higher")
    with job.timed("test"):
        detections = boxes_of(fitted.module, (backbone.rows("test"),), "test")
    parameters = sum(p.numel() for p in head.parameters() if p.requires_grad)
    return _judged(
        job, detections, {"head": "dense", "head_parameters": parameters, **fitted.about("map"), **shown.about}
    )


def _with_detector(job: Job, shown: Shown, detector: Detector) -> Outcome:
    data, settings = job.data, job.settings
    if settings.tune not in ("frozen", "linear", "prompt", "full"):
        raise UsageError(f"--tune {settings.tune} is for encoders; a detector has frozen, linear, prompt or full")
    if settings.tune == "frozen":
        if shown.shots not in ("0", "full"):
            raise UsageError(f"--shots {shown.shots} trains a detector: say how with --tune linear, prompt or full")
        shown.about["shots"] = "0"
    read, prompts = _read(job, detector)

    def validate() -> float:
        held = data.validation
        return validated(
            held.targets, detect(detector, held.images, held.targets.sizes, read, lambda done, total: None)
        )

    about: dict[str, Any] = {"steps": 0}
    with unchanged(detector):
        if settings.tune != "frozen" and shown.shots != "0":
            with job.timed("train"):
                about = tune_detector(job, detector, read, partial(whole_picture, data.train.images), validate)
        with job.timed("test"):
            boxes = detect(detector, data.test.images, data.test.targets.sizes, read, partial(job.progress, "test"))
    return _judged(job, boxes, {"detector": detector.family, "prompts": prompts, **about, **shown.about})


def _read(job: Job, detector: Detector) -> tuple[list[Phrase], dict[str, Any]]:
    """Return what a detector reads for the classes, and what the result file reports of it."""
    settings, classes, captions = job.settings, job.data.classes, job.training.get("captions")
    about: dict[str, Any] = {"kind": settings.prompts}
    if settings.knowledge_from is None:
        read = phrases(classes, captions if settings.prompts == "overrides" else None)
    elif not detector.reads:
        raise UsageError(f"setting prompts={settings.prompts} is for detectors that read names, not {detector.family}")
    else:
        known = known_phrases(job.benchmark.id, classes, settings.prompts, settings.knowledge_from, captions)
        read, cut = detector.fitting(known.phrases)
        if settings.tune != "frozen" and any(phrase.more for phrase in read):
            raise UsageError(f"--tune {settings.tune} trains with one text of a class, e.g. --setting prompts=gpt3:1")
        if silent := plainly_read(settings.prompts, known.unknown, len(classes)):
            _LOG.warning("%s: %s", job.benchmark.id, silent)
        about |= {"from": settings.knowledge_from, "unknown": list(known.unknown), "shortened": cut}
    texts = [" | ".join(single.text for single in phrase.each) for phrase in read]
    return read, {**about, "read": texts if detector.reads else []}


def _judged(job: Job, detections: Ragged, training: dict[str, Any]) -> Outcome:
    """Detections on the test split, scored beside what can be said without looking."""
    data, truth = job.data, job.data.test.targets
    with job.timed("test"):
        blind = guessed(data.train.targets, truth, len(data.classes))
        judged = judge(truth, detections, blind, data.classes, job.benchmark.metrics, job.seed)
    submission = submitted(job, detections) if job.settings.keep_predictions else None
    return Outcome(judged.scores, judged.outcomes, {**training, **judged.more}, judged.predicted, submission)


def submitted(job: Job, detections: Ragged) -> Ragged:
    """Return detections with the ids of images and categories that ODinW's annotation file has; without one, from 1."""
    images, identity, root = job.data.test.images, job.training.get("odinw"), job.settings.data_root
    numbers = np.arange(1, len(detections) + 1)
    categories = np.arange(1, len(job.data.classes) + 1)
    if identity is not None and root is not None and not isinstance(images, Tensor):
        from gate_data.originals.odinw import file_ids

        ids = file_ids(root, identity, str(job.training.get("split", "test")))
        if ids is not None:
            numbers = np.array([ids.images[Path(str(files[0])).name] for files in images.files])
            categories = np.array([ids.categories[name] for name in job.data.classes])
    columns = {
        "image_id": np.repeat(numbers, detections.lengths),
        "category_id": categories[detections.columns["label"]],
        **{name: detections.columns[name] for name in ("box", "score")},
    }
    return Ragged(columns, detections.lengths)


def whole_picture(images: Tensor | Pictures, row: int) -> UInt8[np.ndarray, "h w 3"]:
    """One image as it lies in its file, neither cut nor scaled."""
    if isinstance(images, Tensor):
        return np.ascontiguousarray(images[row].permute(1, 2, 0).numpy())
    return np.asarray(decode(images.files[row][0]))


def detect(
    detector: Detector,
    images: Tensor | Pictures,
    sizes: Int[np.ndarray, "n 2"],
    phrases: Sequence[Phrase],
    progress: Callable[[int, int], None],
) -> Ragged:
    """The 300 best pairs of a query and a class of each image; no threshold, and nothing is suppressed.

    Source:
        Grounding DINO's own evaluation; COCO's then counts the 100 best of each class.
    """
    parts: list[Ragged] = []
    detector.model.eval()
    for row in range(len(images)):
        spotted = detector.spot(whole_picture(images, row), phrases)
        best = topk_detections(spotted.scores[None], spotted.boxes[None], MOST)
        corners = best.boxes[0].numpy().astype(np.float64)
        boxes = np.concatenate([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]], axis=1)
        parts.append(in_pixels(boxes[None], best.scores.numpy(), best.labels.numpy(), sizes[row : row + 1]))
        progress(row + 1, len(images))
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in ("box", "label", "score")}
    return Ragged(columns, np.concatenate([part.lengths for part in parts]))


def _packed(boxes: Detections) -> Tensor:
    """As one tensor ``[n, q, 6]``: box, score, label."""
    return torch.cat([boxes.boxes, boxes.scores[..., None], boxes.labels[..., None].to(boxes.boxes)], dim=-1)
