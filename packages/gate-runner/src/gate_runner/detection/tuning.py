"""Detectors trained by the one trainer with their model's own loss: nearly all, their last layers, or a prompt."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from gate_runner.errors import UsageError
from gate_runner.tasks.recipes import augmentation_of, checked
from vision_adapters.finetune import preserve_state
from vision_adapters.heads import global_seed
from vision_adapters.training import Recipe, fit
from vision_features.encoders.detectors import GROUNDING, Detector, Phrase

if TYPE_CHECKING:
    from gate_runner.tasks.job import Job

_HEADS = (
    "class_embed", "bbox_embed", "class_labels_classifier", "bbox_predictor", "enc_score_head", "enc_bbox_head",
    "enc_output", "text_projection",
)  # fmt: skip
_BACKBONE = re.compile(r"(?:^|\.)(?:(?:vision_)?backbone|conv_encoder)\.")
_STAGE = re.compile(r"(?:^|\.)(?:(?:stages|layers|layer|blocks)[._](\d+)|layer([1-4]))\.")
_STEM = re.compile(r"(?:^|\.)(?:embeddings|embedder|patch_embed|stem\w*|conv1|bn1|cls_token|pos_embed)(?:\.|$)")
_EPOCHS = 200
"""Passes over the training images, at most: GLIP's trainings end when validation has not gained for some."""
_PATIENCE = {"full": (2, 4)}
"""By shots, epochs without gain on validation until the rate falls, and until the training ends; of few shots 3, 8."""
_TEXT_RATE = 0.1
"""The text encoder's share of the rate: 1e-5 of 1e-4."""
_BIAS_RATE = 2.0
_TABLE = "prompt_table"
_COPIES = {"1": 8, "3": 4, "5": 2}
"""Passes that an epoch of few shots makes, as GLIP repeats its lists."""


def tune_detector(
    job: Job, detector: Detector, phrases: Sequence[Phrase], picture: Callable[[int], np.ndarray],
    validate: Callable[[], float],
) -> dict[str, Any]:  # fmt: skip
    """Train a detector in place on a job's training images; the weights that validate best stay.

    Source:
        GLIP's numbers as ELEVATER takes them (E.1, table 8): AdamW at 1e-4 (the text encoder 1e-5, biases twice the
        rate), decay .05; for a prompt 0.05 and .25; batches of 4, gradient norm 1, a tenth of the rate after 3 epochs
        without gain on validation, the end after 8, as the code has it (the paper says 9); 2 and 4 with all images.
    """
    if job.settings.recipe == "gate":
        raise UsageError("--recipe gate is for encoders; a detector is trained by GLIP's numbers, or those of --set")
    if "augment" in job.settings.recipe_fields and augmentation_of(job.settings) != "none":
        raise UsageError(f"augment={augmentation_of(job.settings)} is for encoders; a detector's images are not varied")
    tune, shots = job.settings.tune, str(job.training.get("shots", "full"))
    if detector.reads and detector.family not in GROUNDING:
        raise UsageError(f"--tune {tune}: {detector.family} cannot be trained: transformers has no loss for it")
    if tune == "prompt" and detector.family not in GROUNDING:
        raise UsageError(
            f"--tune prompt learns what is added to a text encoder's tokens, and {detector.family} has no text side; "
            f"expected one of {', '.join(GROUNDING)}"
        )
    if not detector.reads:
        with global_seed(job.seed):
            with_classes(detector, len(phrases))
    choose(detector, tune)
    count = len(job.data.train)
    epoch = max(1, math.ceil(_COPIES.get(shots, 1) * count / 4))
    patience, stop = _PATIENCE.get(shots, (3, 8))
    numbers = {
        "lr": 0.05 if tune == "prompt" else 1e-4, "weight_decay": 0.25 if tune == "prompt" else 0.05,
        "steps": _EPOCHS * epoch, "batch_size": 4, "validate_every": epoch, "clip_norm": 1.0, "factor": 0.1,
        "plateau_on": "validation", "patience": patience, "stop": stop, "least_lr": 1e-6,
    }  # fmt: skip
    changes = checked(job.settings.recipe_fields)
    try:
        recipe = Recipe(**{**numbers, **changes})
    except (TypeError, ValueError) as error:
        raise UsageError(f"recipe: {error}") from error
    rows = torch.arange(count)
    done = fit(
        _Learning(detector, phrases, picture, job.data.train.targets.padded()),
        (rows,),
        rows,
        loss=lambda loss, _: loss,
        recipe=recipe,
        validate=lambda _: validate(),
        direction="higher",
        seed=job.seed,
        checkpoint=job.checkpoint,
        belongs_to={"data": job.data.digest(), "tune": tune},
        progress=job.progress,
        device=detector.device,
    )
    return {
        "steps": done.history[-1].step,
        "lr": recipe.lr,
        "recipe": asdict(recipe),
        "trained_parameters": sum(w.numel() for w in detector.model.parameters() if w.requires_grad),
        "chosen_step": done.best_step,
        "validation": [{"step": row.step, "map": row.score} for row in done.history],
        "losses": [row.loss for row in done.history[1:]],
    }


class _Learning(nn.Module):
    """A detector as the trainer sees it: numbers of training images to its own loss of them."""

    def __init__(
        self, detector: Detector, phrases: Sequence[Phrase], picture: Callable[[int], np.ndarray], truth: Tensor
    ) -> None:
        super().__init__()
        self.model = detector.model
        self.detector, self.phrases, self.picture, self.truth = detector, phrases, picture, truth

    def lr_scale(self, path: str, parameter: Tensor) -> float:
        """The share of the rate with which a weight learns."""
        text = _TEXT_RATE if "text_backbone" in path and not path.endswith(_TABLE) else 1.0
        return text * (_BIAS_RATE if path.endswith("bias") else 1.0)

    def forward(self, rows: Tensor) -> Tensor:
        """The loss of a batch; batch normalisation whose weights are frozen keeps its statistics, too."""
        norms = (part for part in self.model.modules() if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d))
        for norm in norms:
            norm.train(norm.training and any(weight.requires_grad for weight in norm.parameters()))
        numbers = rows.tolist()
        truths = [self.truth[row][self.truth[row, :, 0] >= 0] for row in numbers]
        return batch_loss(self.detector, [self.picture(row) for row in numbers], truths, self.phrases)


def batch_loss(
    detector: Detector, pictures: Sequence[np.ndarray], truths: Sequence[Tensor], phrases: Sequence[Phrase]
) -> Tensor:
    """The loss of some images that all are asked for the same classes.

    transformers' loss takes wrong classes from the third image on where prompts differ; here all images of a call
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
            classes = torch.tensor([row_of[int(row[0])] for row in mine], dtype=torch.long, device=device)
            boxes = torch.tensor([row[1:] for row in mine], device=device).view(-1, 4)
            labels.append({"class_labels": classes, "boxes": boxes})
        if detector.reads:
            text = detector.caption([phrases[label] for label in chunk])[0]
            inputs = detector.processor(images=list(pictures), text=[text] * len(pictures), return_tensors="pt")
        else:
            inputs = detector.processor(images=list(pictures), return_tensors="pt")
        total = total + model(**inputs.to(device), labels=labels).loss / len(chunks)
    loss: Tensor = total
    return loss


def with_classes(detector: Detector, classes: int) -> None:
    """Give a closed-set detector so many classes, with new class layers where it has another number."""
    model = detector.model
    if model.config.num_labels == classes:
        return
    names = {number: str(number) for number in range(classes)}
    labels = {"id2label": names, "label2id": {name: number for number, name in names.items()}}
    config = type(model.config).from_dict({**model.config.to_dict(), **labels})
    fresh = type(model)(config)
    own, old = fresh.state_dict(), model.state_dict()
    fresh.load_state_dict({**own, **{name: old[name] for name in old if own[name].shape == old[name].shape}})
    detector.model = fresh.train(model.training).to(detector.device)


def choose(detector: Detector, tune: str) -> list[str]:
    """Leave gradients to what a way of tuning trains, and name it.

    ``linear``: the layers that say classes and boxes, and the projection of the text; ``full``: all but the backbone's
    stem and first stage, which are GLIP's two frozen stages; of YOLOS, which has no backbone, all; ``prompt``: a table
    of zeros that is added to the text encoder's tokens, alone.

    Source:
        GLIP's prompt tuning has a table of 1,000 tokens, of which it reads as many as a prompt has: ours has as many as
        the longest prompt may have.
    """
    if tune == "prompt":
        detector.model.requires_grad_(False)
        text, config = detector.model.model.text_backbone, detector.model.config
        wide = config.text_config.hidden_size
        setattr(text, _TABLE, nn.Parameter(torch.zeros(config.max_text_len, wide, device=detector.device)))
        text.register_forward_hook(_with_table)
    for name, weight in detector.model.named_parameters() if tune != "prompt" else ():
        weight.requires_grad_(any(part in name for part in _HEADS) if tune == "linear" else not low(name))
    return [name for name, weight in detector.model.named_parameters() if weight.requires_grad]


def low(name: str) -> bool:
    """Whether a weight belongs to the stem or the first stage of an image's backbone.

    Source:
        GLIP's ``FREEZE_CONV_BODY_AT 2``: in its ResNet and its Swin transformer the stem is the first of the two.
    """
    inside = _BACKBONE.split(name)
    if len(inside) == 1 or "projector" in name:
        return False
    stage = _STAGE.search(inside[-1])
    if stage is None:
        return _STEM.search(inside[-1]) is not None
    return stage[1] == "0" or stage[2] == "1"


def _with_table(module: Any, inputs: Any, output: Any) -> Any:
    """Add the learned table to the tokens that the text encoder gives."""
    tokens = output.last_hidden_state
    output["last_hidden_state"] = tokens + getattr(module, _TABLE)[: tokens.shape[1]]
    return output


@contextmanager
def unchanged(detector: Detector) -> Iterator[None]:
    """Put a detector back as it was after a training: the next part begins with the same weights."""
    model = detector.model
    with preserve_state(model):
        try:
            yield
        finally:
            text = getattr(getattr(detector.model, "model", None), "text_backbone", None)
            if text is not None and hasattr(text, _TABLE):
                delattr(text, _TABLE)
                text._forward_hooks.clear()
            detector.model = model
