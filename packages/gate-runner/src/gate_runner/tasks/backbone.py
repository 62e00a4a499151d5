"""The encoder as a task sees it: features to train a head on, or images and an encoder that learns with the head."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from gate_data.request import SplitName, size_of
from gate_runner.errors import EncoderError, UsageError
from gate_runner.tasks import dense_readouts
from gate_runner.tasks.augmentation import Augmented, Plain
from gate_runner.tasks.features import rows_of
from gate_runner.tasks.head_initialisation import head_first
from gate_runner.tasks.joint import Moved, MovedTargets
from gate_runner.tasks.recipes import augmentation_for, augmentation_of, moves_of
from gate_runner.tasks.registry import known_task_type
from vision_adapters import finetune
from vision_adapters.rows import Rows, SampleRows
from vision_adapters.training import Backbone, FrozenFeatures, Scale, TrainedEncoder
from vision_features.features import EncodedRows, Kind, images_at

if TYPE_CHECKING:
    from gate_runner.tasks.job import Job
    from vision_features.encoders.encoder import Encoder

_FOR_SCALE = 256
"""Training images on which the scale of the untrained features is measured."""
_PARTS = {"full": "all", "last-block": "last_block"}
"""Modes that are called otherwise where they are carried out."""


class Learning(TrainedEncoder):
    """An encoder whose weights learn in place.

    ``before`` are its features where the head starts at their probe; ``moved`` takes the training targets to those of
    images that are moved.
    """

    def __init__(self, before: FrozenFeatures | None, moved: Callable[[Rows], Rows], *arguments: Any, **named: Any):
        super().__init__(*arguments, **named)
        self.before, self.moved = before, moved


def make_backbone(job: Job, kind: Kind) -> Backbone:
    """The backbone of a job, as its settings ask for it: pooled features, those of the backbone, or of patches."""
    encoder, images = job.encoder, job.data.train.images
    if job.settings.tune == "frozen":
        return _frozen(job, kind)
    if encoder.module is None:
        raise EncoderError(f"encoder {encoder.spec!r} has no weights that can be trained: use --tune frozen")
    before = _frozen(job, kind) if head_first(job) else None
    few = images_at(images, torch.arange(min(_FOR_SCALE, len(images))))
    few = few.reshape(-1, *few.shape[-3:])[:_FOR_SCALE]
    if before is not None:
        scale = before.scale
    else:
        with torch.no_grad(), job.timed("encode"):
            parts = [features_of(encoder, kind, part).cpu() for part in torch.split(few, 32)]
        scale = Scale.of(torch.cat(parts))

    def unfreeze() -> None:
        choose_weights(encoder, kind, job.settings.tune, few[:2], seed=job.seed)
        if job.settings.checkpoint_blocks:
            try:
                finetune.recompute_blocks(cast(nn.Module, encoder.module))
            except ValueError as error:
                raise EncoderError(f"encoder {encoder.spec!r}: setting checkpoint_blocks: {error}") from error

    task, name_of, workers = job.benchmark.task, augmentation_of(job.settings), job.settings.decode_workers
    moves = moves_of(name_of, task)
    places = kind == "patches" and known_task_type(task).gate_recipe != "relational"
    augment = augmentation_for(name_of, task) if moves is None else ""
    if places and moves is None and augment != "none":
        if name_of != "gate":
            raise UsageError(f"augment={name_of} moves images, and not what their places are labelled with")
        augment = "none"  # a plug-in's task: nothing is known of its targets
    together = None if moves is None else Moved(moves, size_of(tuple(images.shape[-2:])))

    def rows(name: SplitName) -> Rows:
        """Images; those of the training split augmented where the recipe says so, and made ahead by workers."""
        images = getattr(job.data, name).images
        if name == "train" and together is not None:
            return SampleRows(Augmented(images, vary=together.image), len(images), workers=workers)
        if name == "train" and augment != "none":
            return SampleRows(Augmented(images, augment), len(images), workers=workers)
        if isinstance(images, Tensor):
            return images
        if name == "train" and workers:
            return SampleRows(Plain(images), len(images), workers=workers)
        return EncodedRows(lambda at: images_at(images, at), len(images), 64)

    def moved(targets: Rows) -> Rows:
        if together is None or not places:
            return targets
        change = together.boxes if task == "detection" else together.map
        return SampleRows(MovedTargets(targets, change), len(targets))

    return Learning(
        before,
        moved,
        encoder.module,
        lambda images: features_of(encoder, kind, images),
        rows,
        scale,
        unfreeze=unfreeze,
        grid=encoder.encode_patches(few[:1]).grid if kind == "patches" else (1, 1),
        follows=job.settings.tune == "full",
    )


def _frozen(job: Job, kind: Kind) -> FrozenFeatures:
    """Every image through the encoder once."""
    if kind == "patches" and job.training.get("readout", "last") != "last":
        return dense_readouts.backbone_of(job)
    with torch.no_grad():
        grid = job.encoder.encode_patches(job.data.train.images[:1]).grid if kind == "patches" else (1, 1)
        return FrozenFeatures(lambda name: rows_of(job, getattr(job.data, name), kind, name), grid=grid)


def features_of(encoder: Encoder, kind: Kind, images: Tensor) -> Tensor:
    """Features of a kind, with gradients where they are asked for."""
    prepared = encoder.prepare(images)
    if kind == "pooled":
        return encoder.image(prepared).float()
    if kind == "backbone":
        assert encoder.backbone is not None
        return encoder.backbone(prepared).float()
    assert encoder.patches is not None
    return encoder.patches(prepared).tokens.float()


def choose_weights(encoder: Encoder, kind: Kind, tune: str, images: Tensor, *, seed: int = 0) -> list[str]:
    """Leave gradients to what a mode of ``--tune`` trains; see `vision_adapters.finetune.choose_weights`."""
    module = encoder.module
    if module is None or not any(True for _ in module.parameters()):
        raise EncoderError(f"encoder {encoder.spec!r} has no weights that can be trained: use --tune frozen")
    embed: Callable[[], Tensor] = lambda: features_of(encoder, kind, images)  # noqa: E731
    try:
        return finetune.choose_weights(module, embed, _PARTS.get(tune, tune), seed=seed)  # type: ignore[arg-type]  # settings checked it
    except ValueError as error:
        message = str(error)
        if message.endswith("gives no gradients"):
            raise EncoderError(f"encoder {encoder.spec!r}: {message}: --tune frozen only") from error
        raise EncoderError(f"encoder {encoder.spec!r}: --tune {tune}: {message}") from error


def preserved_encoder(encoder: Encoder) -> AbstractContextManager[dict[str, Tensor]]:
    """Put an encoder back as it was, whatever a part did to it; gives copies of its weights before, if it has some."""
    return nullcontext({}) if encoder.module is None else finetune.preserve_state(encoder.module)
