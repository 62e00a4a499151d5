"""Detectors trained on few or many pictures by GLIP's recipe: whole, by linear probing, or by prompt tuning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from gate_runner.detection.detecting import detect, whole_picture
from gate_runner.detection.scoring import match
from gate_runner.detection.trainable import choose, steady, with_classes
from gate_runner.encoders.detectors import GROUNDING, Detector
from gate_runner.encoders.phrases import Phrase
from gate_runner.errors import UsageError
from vision_adapters.detection import mean_average_precision
from vision_adapters.heads import global_seed
from vision_adapters.training.checkpoint import changing_state, load, save
from vision_adapters.training.step import batch_indices

if TYPE_CHECKING:
    from gate_runner.tasks.job import Job

_REFUSED = {
    "owlv2": "transformers has no loss for it, and its labels go nowhere",
    "owlvit": "transformers has no loss for it, and its labels go nowhere",
    "omdet-turbo": "transformers has no loss for it, and refuses labels",
}


@dataclass(frozen=True)
class TuneRecipe:
    """GLIP's numbers.

    Args:
        lr: of all that learns.
        text_lr: of the text encoder.
        weight_decay: of matrices; biases have none, and twice the rate.
        batch_size: pictures a step.
        epochs: at most.
        patience: epochs without gain on validation until the rate falls to a tenth.
        stop: epochs without gain until the end.
        clip_norm: largest norm of the gradient.
        floor: the lowest rate.

    Source:
        GLIP's configurations and trainer as ELEVATER's detection suite uses them: at most 200 epochs of a training list
        that is repeated 8, 4, 2 and 1 times for 1, 3, 5 and 10 shots; with all pictures patience 2 and 4 epochs to the
        end.
    """

    lr: float = 1e-4
    text_lr: float = 1e-5
    weight_decay: float = 0.05
    batch_size: int = 4
    epochs: int = 200
    patience: int = 3
    stop: int = 8
    clip_norm: float = 1.0
    floor: float = 1e-6


_COPIES = {"1": 8, "3": 4, "5": 2}


def recipe_for(tune: str, shots: str, fields: dict[str, Any]) -> TuneRecipe:
    """The recipe of a way of tuning."""
    recipe = TuneRecipe(lr=0.05, weight_decay=0.25) if tune == "prompt" else TuneRecipe()
    recipe = replace(recipe, patience=2, stop=4) if shots == "full" else recipe
    for name, value in fields.items():
        if name not in vars(recipe):
            raise UsageError(f"recipe: a detector's has {', '.join(vars(recipe))}, not {name!r}")
        try:
            number = float(value)
        except (TypeError, ValueError) as error:
            raise UsageError(f"recipe: {name} is {value!r}, expected a number") from error
        changed: dict[str, Any] = {name: int(number) if isinstance(getattr(recipe, name), int) else number}
        recipe = replace(recipe, **changed)
    return recipe


def tune_detector(job: Job, detector: Detector, phrases: Sequence[Phrase]) -> dict[str, Any]:
    """Train a detector in place on a job's training pictures; the epoch that validates best stays."""
    if detector.family in _REFUSED:
        raise UsageError(
            f"--tune {job.settings.tune}: {detector.family} cannot be trained: {_REFUSED[detector.family]}"
        )
    if job.settings.tune == "prompt" and detector.family not in GROUNDING:
        raise UsageError(f"--tune prompt learns a table on text tokens, but {detector.family} reads none")
    shots = str(job.training.get("shots", "full"))
    recipe = recipe_for(job.settings.tune, shots, dict(job.settings.recipe_fields))
    with global_seed(job.seed):
        if not detector.reads:
            with_classes(detector, len(phrases))
        trained = choose(detector, job.settings.tune)
        return _Tuning(job, detector, phrases, recipe, trained, _COPIES.get(shots, 1)).run()


def batch_loss(
    detector: Detector, pictures: Sequence[np.ndarray], truths: Sequence[Tensor], phrases: Sequence[Phrase]
) -> Tensor:
    """The loss of some pictures that all are asked for the same classes.

    transformers' loss takes wrong classes from the third picture on where prompts differ; here all pictures of a call
    share one prompt, and a list that is too long for one is asked for prompt by prompt.
    """
    model, device = detector.model, detector.device
    chunks = detector.chunks(phrases) if detector.reads else [list(range(len(phrases)))]
    total: Any = 0.0
    for chunk in chunks:
        row_of = {label: row for row, label in enumerate(chunk)}
        labels = []
        for truth in truths:
            mine = [row for row in truth.tolist() if int(row[0]) in row_of]
            labels.append(
                {
                    "class_labels": torch.tensor(
                        [row_of[int(row[0])] for row in mine], dtype=torch.long, device=device
                    ),
                    "boxes": torch.tensor([row[1:] for row in mine], device=device).view(-1, 4),
                }
            )
        if detector.reads:
            text = detector.caption([phrases[label] for label in chunk])[0]
            inputs = detector.processor(images=list(pictures), text=[text] * len(pictures), return_tensors="pt")
        else:
            inputs = detector.processor(images=list(pictures), return_tensors="pt")
        total = total + model(**inputs.to(device), labels=labels).loss / len(chunks)
    loss: Tensor = total
    return loss


class _Tuning:
    """Epochs, the falling rate, the early end, and the file from which a training goes on to the same bits."""

    def __init__(
        self,
        job: Job,
        detector: Detector,
        phrases: Sequence[Phrase],
        recipe: TuneRecipe,
        trained: list[str],
        copies: int,
    ) -> None:
        self.job, self.detector, self.phrases, self.recipe, self.trained = job, detector, phrases, recipe, trained
        self.truth = job.data.train.targets.padded()
        self.steps = max(1, math.ceil(copies * len(job.data.train) / recipe.batch_size))
        self.optimiser = torch.optim.AdamW(_groups(detector.model, recipe))
        self.rates = [float(group["lr"]) for group in self.optimiser.param_groups]
        self.epoch, self.waited, self.since_best, self.scale = 0, 0, 0, 1.0
        self.best, self.best_epoch = self._validated(), 0
        self.best_state = changing_state(detector.model)
        self.history = [[0, self.best, math.nan]]
        self.marks = {
            "recipe": repr(recipe),
            "seed": str(job.seed),
            "trained": repr(trained),
            "data": job.data.digest(),
        }

    def run(self) -> dict[str, Any]:
        """Train to the end, and leave the best weights."""
        recipe, path = self.recipe, self.job.checkpoint
        if path is not None and path.exists():
            self._load(load(path, self.marks, self.detector.device))
        while self.epoch < recipe.epochs and self.since_best < recipe.stop:
            self.epoch += 1
            loss = self._one_epoch()
            score = self._validated()
            self.history.append([self.epoch, score, loss])
            if score > self.best:
                self.best, self.best_epoch, self.best_state = score, self.epoch, changing_state(self.detector.model)
                self.waited = self.since_best = 0
            else:
                self.waited, self.since_best = self.waited + 1, self.since_best + 1
            if self.waited >= recipe.patience:
                self.scale, self.waited = max(0.1 * self.scale, recipe.floor / recipe.lr), 0
            if path is not None:
                save(path, self._state())
        self.detector.model.load_state_dict(self.best_state, strict=False)
        self.detector.model.eval()
        return {
            "steps": self.epoch * self.steps,
            "lr": recipe.lr,
            "recipe": vars(recipe),
            "trained_parameters": sum(w.numel() for w in self.detector.model.parameters() if w.requires_grad),
            "chosen_step": self.best_epoch * self.steps,
            "validation": [{"step": int(row[0]) * self.steps, "map": row[1]} for row in self.history],
            "losses": [row[2] for row in self.history[1:]],
        }

    def _one_epoch(self) -> float:
        model, total = self.detector.model, 0.0
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * self.scale
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        for step in range(self.steps):
            number = (self.epoch - 1) * self.steps + step + 1
            rows = batch_indices(len(self.truth), self.recipe.batch_size, number, self.job.seed).tolist()
            torch.manual_seed((self.job.seed * 1_000_003 + number) % 2**63)
            model.train()
            steady(model)
            pictures = [whole_picture(self.job.data.train.images, row) for row in rows]
            truths = [self.truth[row][self.truth[row, :, 0] >= 0] for row in rows]
            loss = batch_loss(self.detector, pictures, truths, self.phrases)
            if not bool(torch.isfinite(loss.detach())):
                raise FloatingPointError(f"step {number}: the loss is {float(loss.detach())}, expected a finite number")
            self.optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(weights, self.recipe.clip_norm)
            self.optimiser.step()
            total += float(loss.detach())
            self.job.progress("train", number, self.recipe.epochs * self.steps)
        return total / self.steps

    def _validated(self) -> float:
        part = self.job.data.validation
        detections = detect(self.detector, part.images, part.targets.sizes, self.phrases, lambda done, total: None)
        value = mean_average_precision(match(part.targets, detections), np.ones((1, len(part))))[0]
        return 0.0 if np.isnan(value) else float(value)

    def _state(self) -> dict[str, Any]:
        return {
            "fingerprint": self.marks,
            "module": changing_state(self.detector.model),
            "kept": self.best_state,
            "optimiser": self.optimiser.state_dict(),
            "numbers": [self.epoch, self.waited, self.since_best, self.scale, self.best, self.best_epoch],
            "history": self.history,
        }

    def _load(self, state: dict[str, Any]) -> None:
        self.detector.model.load_state_dict(state["module"], strict=False)
        self.optimiser.load_state_dict(state["optimiser"])
        self.best_state, self.history = state["kept"], state["history"]
        self.epoch, self.waited, self.since_best, self.scale, self.best, self.best_epoch = state["numbers"]


def _groups(model: nn.Module, recipe: TuneRecipe) -> list[dict[str, Any]]:
    """Text encoder slower; biases and norms without decay, biases at twice the rate."""
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            rate = recipe.text_lr if "text_backbone" in name and "prompt_table" not in name else recipe.lr
            bias = name.endswith("bias")
            decay = 0.0 if bias or weight.ndim < 2 else recipe.weight_decay
            groups.setdefault((rate * (2 if bias else 1), decay), []).append(weight)
    return [{"params": weights, "lr": rate, "weight_decay": decay} for (rate, decay), weights in groups.items()]
