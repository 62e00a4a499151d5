"""Detection: a box and a label for each quarter of the image, scored by average precision at an overlap of one half."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gate_data.data import Data, Split
from gate_data.ragged import Ragged
from gate_runner.benchmarks import SplitName
from gate_runner.tasks import Drawing, Job, Outcome, Score, TaskType
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.drawing import pixels_of
from gate_runner.tasks.fitting import fit_head
from gate_runner.tasks.training import predict
from vision_adapters.training.head import Inputs

DETECTION = TaskType(
    id="quarters",
    summary="a hidden layer, cross-entropy on labels and L1 on boxes",
    run="gate_stripes.detection:run",
    draw="gate_stripes.detection:draw",
    statistics={"ap50": "gate_stripes.detection:average_precision"},
)

_COLOURS = ((255, 80, 80), (90, 140, 255))


class Quarters(nn.Module):
    """For each quarter of the image, scores of each class and of nothing, and a box as shares of the image."""

    def __init__(self, dim: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(dim, 128), nn.ReLU(), nn.Linear(128, 4 * (classes + 5)))

    def forward(self, features: Tensor) -> Tensor:
        """Scores and boxes ``[n, 4, classes + 5]``."""
        outputs: Tensor = self.body(features).unflatten(1, (4, -1))
        return outputs


def run(job: Job) -> Outcome:
    """Average precision over test images. Chance: every quarter's mean box, with the training split's label shares."""
    data, side, classes = job.data, job.data.test.images.shape[-1], len(job.data.classes)
    backbone = make_backbone(job, "pooled")
    wanted = _dense(data.train, side, classes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(job.seed)
        head = Quarters(backbone.width, classes)

    def scored(module: nn.Module, rows: Inputs, name: SplitName) -> Ragged:
        raw = predict(module, rows, lambda outputs: outputs, job.predict_size)
        return _matched(raw, getattr(data, name), side, classes)

    fitted = fit_head(
        job,
        backbone,
        head,
        wanted,
        lambda outputs, truth: _loss(outputs, truth, classes),
        lambda module, inputs: _value(scored(module, inputs, "validation")),
        "higher",
    )
    with job.timed("test"):
        outcomes = scored(fitted.module, (backbone.rows("test"),), "test")
        blind = _matched(_blind(wanted, classes).expand(len(data.test), -1, -1), data.test, side, classes)
        low, high = _interval(outcomes, job.seed)
    score = Score("ap50", "higher", _value(outcomes), low, high, _value(blind))
    history = [{"step": row.step, "ap50": row.score} for row in fitted.history]
    return Outcome(
        (score,), outcomes, {"steps": fitted.recipe.steps, "chosen_step": fitted.best_step, "validation": history}
    )


def average_precision(outcomes: Any, weights: np.ndarray) -> np.ndarray:
    """Mean over labels of the area under precision and recall, each image counted ``weights[r, i]`` times.

    Args:
        outcomes: for each image a row per detection (``label``, ``score``, ``hit`` 1 or 0) and one per true box
            (``hit`` -1).
        weights: ``[r, n]``.

    Returns:
        ``[r]``.
    """
    image = np.repeat(np.arange(len(outcomes)), outcomes.lengths)
    label, score, hit = (outcomes.columns[name] for name in ("label", "score", "hit"))
    areas = []
    for kind in np.unique(label):
        mine = np.flatnonzero((label == kind) & (hit >= 0))
        mine = mine[np.argsort(-score[mine], kind="stable")]
        true = weights[:, image[(label == kind) & (hit < 0)]].sum(axis=1)
        hits = np.cumsum(weights[:, image[mine]] * hit[mine], axis=1)
        every = np.cumsum(weights[:, image[mine]], axis=1)
        precision = np.maximum.accumulate((hits / np.maximum(every, 1e-9))[:, ::-1], axis=1)[:, ::-1]
        steps = np.diff(hits, axis=1, prepend=0.0)
        areas.append((precision * steps).sum(axis=1) / np.maximum(true, 1e-9))
    values: np.ndarray = np.mean(areas, axis=0) if areas else np.zeros(len(weights))
    return values


def draw(data: Data[Ragged], training: Mapping[str, Any], index: int) -> Drawing:
    """The image, and beside it the image with its true boxes."""
    scale = 3
    pixels = pixels_of(data.test.images[index], scale * data.test.images.shape[-1])
    truth, framed = data.test.targets[index], pixels.copy()
    for box, label in zip(truth["boxes"], truth["label"], strict=True):
        left, top, right, bottom = (round(scale * float(coordinate)) for coordinate in box)
        framed[top:bottom, [left, right - 1]] = _COLOURS[label]
        framed[[top, bottom - 1], left:right] = _COLOURS[label]
    named = ", ".join(data.classes[label] for label in truth["label"]) or "nothing"
    return Drawing(np.concatenate([pixels, framed], axis=1), f"true: {named}")


def _dense(split: Split[Ragged], side: int, classes: int) -> Tensor:
    """For each quarter its label (``classes`` for nothing) and its box as shares of the image, ``[n, 4, 5]``."""
    batch = split.targets.collate(np.arange(len(split)))
    dense = torch.zeros(len(split), 4, 5)
    dense[:, :, 0] = classes
    for row, index in batch["mask"].nonzero().tolist():
        box = batch["boxes"][row, index]
        quarter = int(box[0] + box[2] >= side) + 2 * int(box[1] + box[3] >= side)
        dense[row, quarter, 0] = batch["label"][row, index]
        dense[row, quarter, 1:] = box / side
    return dense


def _loss(values: Tensor, wanted: Tensor, classes: int) -> Tensor:
    label = wanted[..., 0].long()
    real = label < classes
    place_loss = F.l1_loss(values[..., classes + 1 :][real], wanted[..., 1:][real]) if bool(real.any()) else 0.0
    return F.cross_entropy(values[..., : classes + 1].flatten(0, 1), label.flatten()) + 10 * place_loss


def _blind(targets: Tensor, classes: int) -> Tensor:
    """What can be said of each quarter without looking."""
    label = targets[..., 0].long()
    shares = torch.stack([(label == kind).float().mean(dim=0) for kind in range(classes + 1)], dim=1)
    real = (label < classes).unsqueeze(2)
    boxes = (targets[..., 1:] * real).sum(dim=0) / real.sum(dim=0).clamp_min(1)
    return torch.cat([shares.clamp_min(1e-6).log(), boxes], dim=1)


def _matched(values: Tensor, split: Split[Ragged], side: int, classes: int) -> Ragged:
    """Each detection with whether it hits a true box, and the true boxes."""
    return Ragged.of(_rows(values, split.targets, side, classes))


def _rows(values: Tensor, targets: Ragged, side: int, classes: int) -> Iterator[dict[str, np.ndarray]]:
    scores = values[..., : classes + 1].softmax(dim=-1).numpy()
    boxes = side * values[..., classes + 1 :].numpy()
    for image, truth in enumerate(targets):
        rows = [(float(label), 0.0, -1.0) for label in truth["label"]]
        free = set(range(len(truth["label"])))
        order = sorted((-scores[image, index, kind], index, kind) for index in range(4) for kind in range(classes))
        for less, index, kind in order:
            same = [candidate for candidate in sorted(free) if truth["label"][candidate] == kind]
            fits = [candidate for candidate in same if _overlap(boxes[image, index], truth["boxes"][candidate]) >= 0.5]
            free -= set(fits[:1])
            rows.append((float(kind), -less, float(bool(fits))))
        table = np.array(rows)
        yield {"label": table[:, 0], "score": table[:, 1], "hit": table[:, 2]}


def _overlap(values: np.ndarray, other: np.ndarray) -> float:
    """Intersection over union."""
    wide, high = (min(values[k + 2], other[k + 2]) - max(values[k], other[k]) for k in (0, 1))
    shared = float(max(0.0, wide) * max(0.0, high))
    areas = sum(float((box[2] - box[0]) * (box[3] - box[1])) for box in (values, other))
    return shared / (areas - shared) if areas > shared else 0.0


def _value(outcomes: Ragged) -> float:
    return float(average_precision(outcomes, np.ones((1, len(outcomes))))[0])


def _interval(outcomes: Ragged, seed: int) -> tuple[float, float]:
    count = len(outcomes)
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=1000)
    low, high = np.quantile(average_precision(outcomes, drawn.astype(float)), [0.025, 0.975])
    return float(low), float(high)
