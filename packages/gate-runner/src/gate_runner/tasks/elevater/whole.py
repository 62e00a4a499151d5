"""The whole encoder trained with its head, from each of ELEVATER's four starts."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gate_runner.errors import EncoderError, NotApplicableError
from gate_runner.settings.axes import FULL, Variant
from gate_runner.tasks.augmentation import Augmented, Plain
from gate_runner.tasks.backbone import features_of, preserved_encoder
from gate_runner.tasks.elevater.heads import Draw, Features, Fitted, draw_shots
from gate_runner.tasks.recipes import augmentation_for, augmentation_of, head_form, recipe_for
from vision_adapters.finetune import recompute_blocks
from vision_adapters.recompute import recomputed
from vision_adapters.rows import Rows, SampleRows
from vision_features.features import EncodedRows, Kind, images_at
from vision_features.heads.saved import KeptHead

if TYPE_CHECKING:
    from gate_data.pictures import Pictures
    from gate_runner.settings import Settings
    from gate_runner.tasks.job import Job
    from vision_adapters.heads import LinearHead
    from vision_adapters.training import TrainedEncoder
    from vision_adapters.training.backbones import SplitName
    from vision_adapters.tuning.folds import Fold, Split
    from vision_features.encoders.encoder import Encoder

QUICK = {"steps": 6, "batch_size": 8, "validate_every": 6, "warmup": 1}
"""What the quick recipe becomes in a grid of hundreds of trainings; a field that was set goes before it."""
_VALIDATED = 48
"""Images on which a quick training validates, at most."""
_BATCH = 64


def fit_whole(job: Job, variant: Variant, features: Features, weights: Tensor | None, metric: str) -> Fitted:
    """Train encoder and head on one part of the drawn images, choose on the other, and score the test split once.

    The untrained start is a candidate: a language-initialised head that training only harms stays zero-shot. Training
    goes the way of all tasks (`vision_adapters.training.fit_head`), with micro-batches, checkpoints, recomputed blocks,
    worker processes that decode, and several processes.
    """
    from paired_scores.metrics import evaluate, metric_named
    from vision_adapters.losses import class_balance, cross_entropy
    from vision_adapters.training import fit_head

    encoder, settings, train = job.encoder, job.settings, job.data.train
    draw, labels, fold = divided(job, variant, features)
    several = labels.ndim == 2
    assert encoder.module is not None
    recipe = recipe_for(settings.changed(recipe_fields=_fields(settings)), encoder.module, "image-classification")
    with preserved_encoder(encoder):
        head = head_at_start(job, variant, features, weights)
        validated = torch.as_tensor(fold.validation)
        if settings.recipe == "quick" and len(validated) > _VALIDATED:
            order = torch.randperm(len(validated), generator=torch.Generator().manual_seed(0))
            validated = validated[order[:_VALIDATED]]
        rows = draw.rows[torch.as_tensor(fold.train)]
        parts = {"train": (train.images, rows), "validation": (train.images, draw.rows[validated])}
        backbone = backbone_of(job, variant, parts)
        held = labels[validated]
        at_start = _untrained(head, features, variant.projection, draw.rows[validated])
        checkpoint = checkpoint_of(job, variant, weights)
        fresh = checkpoint is None or not checkpoint.exists()

        def bce(scores: Tensor, target: Tensor) -> Tensor:
            return F.binary_cross_entropy_with_logits(scores, target.float())

        def validate(tuned: nn.Module, inputs: tuple[Rows, ...]) -> float:
            nonlocal fresh
            scores = at_start if fresh else scores_of(tuned, inputs[0])  # the start is known from the kept features
            fresh = False
            try:
                return evaluate(metric, scores, held, resamples=0).value
            except ValueError:  # a validation image of each class is not always there
                loss = bce(scores, held) if several else F.cross_entropy(scores, held)
                return -float(loss)

        balance = None
        if settings.class_weight != "none" and not several:
            balance = class_balance(features.train_labels[rows], len(features.classes))
        sampled = settings.class_weight == "sampled"
        with job.timed("train"), job.together() as group:
            trained = fit_head(
                backbone,
                head,
                features.train_labels[rows],
                loss=bce if several else partial(cross_entropy, weight=None if sampled else balance),
                recipe=recipe,
                validate=validate,
                direction=metric_named(metric).direction,
                seed=job.seed,
                micro_batches=settings.micro_batches,
                checkpoint=checkpoint,
                belongs_to={"data_sha256": job.data.digest(), "draw": draw.sha256, "metric": metric},
                device=encoder.device,
                progress=job.progress,
                group=group,
                sample_weights=balance[features.train_labels[rows]] if sampled and balance is not None else None,
            )
        with job.timed("test"):
            if trained.best_step == 0:
                scores = _untrained(head, features, variant.projection, None)
            else:
                scores = scores_of(trained.module.eval(), job.data.test.images)
        count = sum(weight.numel() for weight in trained.module.parameters() if weight.requires_grad)
        saved = kept_head(encoder, head, variant) if settings.save_heads else None
    training = {
        "validated": trained.best_score,
        "trained_parameters": count,
        "chosen": {"step": trained.best_step, "steps": recipe.steps, "recipe": settings.recipe},
        "draw": draw.sha256,
        "short_classes": draw.short,
    }
    score = evaluate(metric, scores, features.test_labels, seed=job.seed, resamples=300)
    return Fitted(score, scores, training, saved)


def divided(job: Job, variant: Variant, features: Features, split: Split | None = None) -> tuple[Draw, Tensor, Fold]:
    """The drawn images, their labels, and which of them train and validate."""
    from vision_adapters.tuning import make_folds

    encoder = job.encoder
    if encoder.module is None:
        raise EncoderError(f"encoder {encoder.spec!r} shows no weights to train: --tune frozen only")
    draw = draw_shots(features.train_labels, variant.shots, job.seed, job.settings.short_classes)
    labels = features.train_labels[draw.rows]
    shuffled = variant.shots == FULL or variant.shots > 4
    try:
        return draw, labels, make_folds(labels, split or ("shuffled" if shuffled else "folds"), job.seed)[0]
    except ValueError as error:
        raise NotApplicableError(str(error)) from error


def backbone_of(
    job: Job, variant: Variant, parts: Mapping[str, tuple[Tensor | Pictures, Tensor]], pieces: int = 1
) -> TrainedEncoder:
    """The encoder, all of whose image side learns; images are read when they are needed.

    A training batch passes the encoder in so many pieces, computed again in the backward pass; the head sees all.
    """
    from vision_adapters.training import Scale, TrainedEncoder

    encoder, settings = job.encoder, job.settings
    module = encoder.module
    assert module is not None
    kind: Kind = "backbone" if variant.projection == "1p" and encoder.backbone is not None else "pooled"

    def unfreeze() -> None:
        module.requires_grad_(True)
        for name, weight in module.named_parameters():
            weight.requires_grad_(_of_images(name))
        if settings.checkpoint_blocks:
            try:
                recompute_blocks(module)
            except ValueError as error:
                raise EncoderError(f"encoder {encoder.spec!r}: --checkpoint-blocks: {error}") from error

    augment = augmentation_for(augmentation_of(settings), "image-classification")

    def rows(name: SplitName) -> Rows:
        images, numbers = parts[name]
        if name == "train" and augment != "none":
            make: Any = Augmented(images, augment)
        elif name == "train" and settings.decode_workers and not isinstance(images, Tensor):
            make = Plain(images)
        else:
            return EncodedRows(lambda at: images_at(images, numbers[at]), len(numbers), _BATCH)
        return SampleRows(partial(_of_number, make, numbers), len(numbers), workers=settings.decode_workers)

    as_it_is, embed = Scale(torch.zeros(1), torch.ones(1)), partial(features_of, encoder, kind)
    again = recomputed(module, embed)

    def embedded(images: Tensor) -> Tensor:
        if pieces == 1 or not torch.is_grad_enabled():
            return embed(images)
        return torch.cat([again(piece) for piece in images.chunk(pieces)])

    return TrainedEncoder(module, embedded, rows, as_it_is, unfreeze=unfreeze)


def _of_number(make: Any, numbers: Tensor, index: int, generator: torch.Generator | None) -> Tensor:
    sample: Tensor = make(int(numbers[index]), generator)
    return sample


def checkpoint_of(job: Job, variant: Variant, weights: Tensor | None) -> Path | None:
    """A file for each training of a unit: ``auto`` has several."""
    if job.checkpoint is None:
        return None
    texts = "" if weights is None else hashlib.sha256(weights.contiguous().numpy().tobytes()).hexdigest()[:12]
    return job.checkpoint.with_name(f"{job.checkpoint.name}.{variant.init}-{variant.projection}{texts}")


def kept_head(encoder: Encoder, head: nn.Module, variant: Variant) -> KeptHead:
    """Copies of encoder and head as they were scored."""
    assert encoder.module is not None
    weights = {name: value.detach().cpu().clone() for name, value in encoder.module.state_dict().items()}
    backbone = variant.projection == "1p" and encoder.backbone is not None
    module = copy.deepcopy(head).cpu().eval()
    return KeptHead(module, "backbone" if backbone else "projected", part="full", encoder=weights)


def _fields(settings: Settings) -> dict[str, Any]:
    return {**(QUICK if settings.recipe == "quick" else {}), **settings.recipe_fields}


def _of_images(name: str) -> bool:
    """Whether a weight of a dual encoder is the image side's; in an encoder of images alone, every one is."""
    texts = ("transformer.", "token_embedding", "positional_embedding", "text_projection", "ln_final", "text.",
             "text_model.", "logit_scale", "logit_bias", "attn_mask")  # fmt: skip
    return not name.startswith(texts)


def head_at_start(job: Job, variant: Variant, features: Features, weights: Tensor | None) -> LinearHead:
    """The head at its start, as the settings have it: normalisation of its features, and the scale of its scores."""
    from vision_adapters.heads import LinearHead, language_head, seeded

    form = head_form(job.settings)
    norm = form.norm or "l2"
    own = 10.0 if weights is None else job.encoder.logit_scale or 100.0
    how: Any = {"features": norm, "logit_scale": form.scale or own, "train_scale": form.train_scale}
    backbone, projection, classes = features.train, features.projection, len(features.classes)
    if weights is None:
        width = backbone.shape[1] if variant.projection == "1p" or projection is None else projection.shape[1]
        return seeded(lambda: LinearHead(width, classes, **how), job.seed)
    if variant.projection == "2p" or projection is None:
        return language_head(weights, how.pop("logit_scale"), **how)
    merged = weights @ projection.T
    # cosines are of projected features: on average over the training images, the merged head has their size
    size = float((backbone.norm(dim=1) / (backbone @ projection).norm(dim=1)).mean()) if norm == "l2" else 1.0
    head = seeded(lambda: LinearHead(backbone.shape[1], classes, **how), 0)
    with torch.no_grad():
        head.weight.copy_(size * merged)
    return head


@torch.no_grad()
def _untrained(head: nn.Module, features: Features, projection: str, rows: Tensor | None) -> Tensor:
    """The start's scores of training images, or (None) of the test images, from the kept features."""
    shown = features.test if rows is None else features.train[rows]
    if projection == "2p" and features.projection is not None:
        shown = shown @ features.projection
    device, training = next(head.parameters()).device, head.training
    scores = torch.as_tensor(head.eval()(shown.to(device))).cpu()
    head.train(training)
    return scores


@torch.no_grad()
def scores_of(model: nn.Module, images: Any) -> Tensor:
    """Scores of images, or of rows that read them, a few at a time."""
    device = next(model.parameters()).device
    read = images.__getitem__ if isinstance(images, EncodedRows) else partial(images_at, images)
    parts = torch.split(torch.arange(len(images)), _BATCH)
    return torch.cat([model(read(part).to(device)).float().cpu() for part in parts])
