"""The whole encoder fine-tuned by ELEVATER's protocol: a grid of rates and decays on 80/20, then one long run."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gate_runner.settings.axes import Variant
from gate_runner.tasks.backbone import preserved_encoder
from gate_runner.tasks.elevater.heads import Features, Fitted
from gate_runner.tasks.elevater.whole import (
    backbone_of,
    checkpoint_of,
    divided,
    head_at_start,
    kept_head,
    scores_of,
)
from gate_runner.tasks.recipes import checked
from vision_adapters.training.side_by_side import Trial
from vision_features.heads.saved import KeptHead
from wary_files.folders import write
from wary_files.limits import refuse_special

if TYPE_CHECKING:
    from gate_runner.tasks.job import Job

EPOCHS, FINAL_EPOCHS = 10, 50


def grid() -> list[Trial]:
    """ELEVATER's six learning rates and the seven decays that its toolkit looks at first."""
    from vision_adapters.tuning.elevater import COARSE, DECAYS, RATES

    return [Trial(rate, DECAYS[at]) for rate in RATES for at in COARSE]


def fit_searched(job: Job, variant: Variant, features: Features, weights: Tensor | None, metric: str) -> Fitted:
    """Choose learning rate and decay by 10 epochs of each on 80 % of the images, then train 50 epochs on all of them.

    SGD with momentum .9, batches of 64, a constant rate, float32; a head behind batch normalisation without affine
    parameters at logit scale 1, unless the recipe's fields say otherwise. A trial's score is that of its best epoch on
    validation. Trials are trained side by side where the encoder's operations can be batched.

    Source:
        ELEVATER, sections E.1 and F.3. Differences: the last epoch of the long run is scored (the toolkit takes the one
        that is best on the test set); decays are not refined around the best; of an epoch, what fills no batch of 64 is
        left out.
    """
    from paired_scores.metrics import evaluate, metric_named
    from vision_adapters.losses import class_balance, cross_entropy
    from vision_adapters.training import Recipe, fit
    from vision_adapters.training.side_by_side import BUDGET, grid_scores

    encoder, settings, images = job.encoder, job.settings, job.data.train.images
    draw, labels, fold = divided(job, variant, features, "toolkit")
    several, sign = labels.ndim == 2, 1.0 if metric_named(metric).direction == "higher" else -1.0
    balance = None
    if settings.class_weight == "balanced" and not several:
        balance = class_balance(labels, len(features.classes))

    def loss(scores: Tensor, target: Tensor) -> Tensor:
        if several:
            return F.binary_cross_entropy_with_logits(scores, target.float())
        return cross_entropy(scores, target, weight=None if balance is None else balance.to(scores.device))

    def recipe(count: int, trial: Trial, epochs: int) -> Recipe:
        epoch = max(1, count // min(64, count))
        fields = {"batch_size": 64, "precision": "float32", **checked(settings.recipe_fields)}
        return Recipe(lr=trial.lr, weight_decay=trial.weight_decay, steps=epochs * epoch, validate_every=epoch,
                      optimiser="sgd", schedule="constant", **fields)  # fmt: skip

    trained, held = (torch.as_tensor(part) for part in (fold.train, fold.validation))
    truth = labels[held]

    def score(scores: Tensor) -> float:
        try:
            return sign * evaluate(metric, scores, truth, resamples=0).value
        except ValueError:  # a validation image of each class is not always there
            return -float(loss(scores, truth))

    parts = {"train": (images, draw.rows[trained]), "validation": (images, draw.rows[held])}
    everything = {"train": (images, draw.rows)}
    trials, fields = grid(), repr(settings.recipe_fields)
    marks = {"data_sha256": job.data.digest(), "draw": draw.sha256, "metric": metric, "fields": fields}
    checkpoint = checkpoint_of(job, variant, weights)
    known = _Known(checkpoint, {**marks, "encoder": str(encoder.fingerprint())})
    with preserved_encoder(encoder):
        backbone = backbone_of(job, variant, parts, settings.micro_batches)
        module = backbone.attach(head_at_start(job, variant, features, weights))
        rows = backbone_of(job, variant, everything).rows("train")

        def noted(trial: Trial, value: float) -> None:
            known.note(trial, value)
            job.progress("choose recipe", len(known.scores), len(trials))

        with job.timed("train"):
            scores = grid_scores(
                module, backbone.rows("train"), labels[trained], trials, loss=loss,
                recipe=recipe(len(trained), Trial(1.0, 0.0), EPOCHS), held=backbone.rows("validation"), score=score,
                worst=-math.inf, seed=job.seed, device=encoder.device, known=known.scores, noted=noted,
                budget=1 if settings.micro_batches > 1 else BUDGET,
            )  # fmt: skip
            chosen = max(trials, key=lambda trial: (scores[trial], -trial.lr, -trial.weight_decay))
            final = recipe(len(labels), chosen, FINAL_EPOCHS)
            fit(
                module, (rows,), labels, loss=loss, recipe=final, validate=lambda _: 0.0,
                direction="higher", seed=job.seed, checkpoint=checkpoint,
                belongs_to={**marks, "weights": "none" if weights is None else _digest(weights)},
                device=encoder.device, progress=job.progress, choose="last",
            )  # fmt: skip
        with job.timed("test"):
            tested = scores_of(module.eval(), job.data.test.images)
        count = sum(weight.numel() for weight in module.parameters() if weight.requires_grad)
        saved: KeptHead | None = kept_head(encoder, module.head, variant) if settings.save_heads else None
    training = {
        "validated": sign * scores[chosen],
        "trained_parameters": count,
        "chosen": {"method": "elevater", "lr": chosen.lr, "weight_decay": chosen.weight_decay, "steps": final.steps},
        "tried": [[*trial, None if math.isinf(value) else sign * value] for trial, value in scores.items()],
        "draw": draw.sha256,
        "short_classes": draw.short,
    }
    result = evaluate(metric, tested, features.test_labels, seed=job.seed, resamples=300)
    return Fitted(result, tested, training, saved)


def _digest(weights: Tensor) -> str:
    return hashlib.sha256(weights.contiguous().numpy().tobytes()).hexdigest()


class _Known:
    """Scores of trials in a file beside a training's state, so that a killed search goes on."""

    def __init__(self, checkpoint: Path | None, marks: Mapping[str, str]) -> None:
        self.path = None if checkpoint is None else checkpoint.with_name(f"{checkpoint.name}.grid")
        self.marks, self.scores = dict(marks), dict[Trial, float]()
        if self.path is None or not self.path.exists():
            return
        try:
            refuse_special(self.path)
            stored: Any = json.loads(self.path.read_text())
            if stored["marks"] == self.marks:
                self.scores = {Trial(float(lr), float(decay)): float(value) for lr, decay, value in stored["scores"]}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            self.scores = {}

    def note(self, trial: Trial, value: float) -> None:
        """Add a score, and write all."""
        self.scores[trial] = value
        if self.path is not None:
            rows = [[*known, score] for known, score in self.scores.items()]
            write(self.path, json.dumps({"marks": self.marks, "scores": rows}).encode())
