"""A backbone that is trained: rows are images, and the encoder learns together with the head."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from gate_data.request import SplitName
from gate_runner.errors import EncoderError
from gate_runner.features import EncodedRows, Kind, images_at
from gate_runner.tasks.attached import Attached
from gate_runner.tasks.augmentation import Augmented
from gate_runner.tasks.recipes import augments
from gate_runner.tasks.scaling import Scale
from vision_adapters.finetune import keep_blocks, recompute_blocks, train_only
from vision_adapters.heads import global_seed
from vision_adapters.low_rank import add_lora, remove_lora
from vision_adapters.rows import Rows, SampleRows

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder
    from gate_runner.tasks.job import Job

_FOR_SCALE = 256
"""Training images on which the scale of the untrained features is measured."""
_PARTS = {"full": "all", "last-block": "last_block"}
"""Modes that are called otherwise where they are carried out."""


class Tuned:
    """The encoder and a head as one module from images to outputs.

    The encoder's weights are trained in place: see `untouched`, which surrounds a part and puts them back.

    Args:
        job: whose encoder, data and settings.
        kind: of the features that the head gets.

    Raises:
        EncoderError: the encoder shows no weights, gives no gradients, or has nothing of the kind that is to be tuned.
        MissingCapabilityError: the encoder gives pooled features only.
    """

    def __init__(self, job: Job, kind: Kind) -> None:
        self.job, self.kind = job, kind
        encoder, images = job.encoder, job.data.train.images
        few = images_at(images, torch.arange(min(_FOR_SCALE, len(images))))
        few = few.reshape(-1, *few.shape[-3:])[:_FOR_SCALE]
        self.grid = encoder.encode_patches(few[:1]).grid if kind == "patches" else (1, 1)
        if job.start is not None:
            self.scale = job.start.scale
        else:
            with torch.no_grad(), job.timed("encode"):
                parts = [features_of(encoder, kind, part).cpu() for part in torch.split(few, 32)]
            self.scale = Scale.of(torch.cat(parts))
        self.width = len(self.scale.mean)
        with global_seed(job.seed):  # low-rank updates start at random
            self.trained = choose_weights(encoder, kind, job.settings.tune, few[:2])
        if job.settings.checkpoint_blocks:
            try:
                recompute_blocks(cast(nn.Module, encoder.module))
            except ValueError as error:
                raise EncoderError(f"encoder {encoder.spec!r}: --checkpoint-blocks: {error}") from error

    def rows(self, name: SplitName) -> Rows:
        """Images; those of the training split augmented where the recipe says so."""
        images = getattr(self.job.data, name).images
        if name == "train" and augments(self.job.settings):
            return SampleRows(Augmented(images), len(images), workers=self.job.settings.decode_workers)
        if isinstance(images, Tensor):
            return images
        return EncodedRows(lambda rows: images_at(images, rows), len(images), 64)

    def attach(self, head: nn.Module, *others: Scale | None) -> Attached:
        """Encoder, scale and head as one module; the head with the weights that the job names, if any."""
        if self.job.start is not None:
            head.load_state_dict(self.job.start.state)
        return _Whole(self.job.encoder, self.kind, head, self.scale, others, follows=self.job.settings.tune == "full")


class _Whole(Attached):
    """Images to features, on the scale of the untrained ones, to the head's outputs."""

    def __init__(
        self,
        encoder: Encoder,
        kind: Kind,
        head: nn.Module,
        scale: Scale,
        others: tuple[Scale | None, ...],
        *,
        follows: bool,
    ) -> None:
        super().__init__()
        assert encoder.module is not None
        self.encoder, self.head, self.scale = encoder.module, head, scale
        self.others = nn.ModuleList(nn.Identity() if other is None else other for other in others)
        self._made, self._kind, self._follows = encoder, kind, follows

    def train(self, mode: bool = True) -> _Whole:
        """Statistics of normalisation layers move, and dropout drops, only where the whole encoder learns."""
        super().train(mode)
        if not self._follows:
            self.encoder.eval()
        return self

    def features(self, rows: Tensor) -> Tensor:
        """Features of images."""
        ahead = rows.shape[:-3]
        found = features_of(self._made, self._kind, rows.reshape(-1, *rows.shape[-3:]))
        scaled: Tensor = self.scale(found.reshape(*ahead, *found.shape[1:]))
        return scaled

    def forward(self, images: Tensor, *others: Tensor) -> Tensor:
        """What the head says."""
        rest = (scale(each) for scale, each in zip(self.others, others, strict=True))
        said: Tensor = self.head(self.features(images), *rest)
        return said


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


def choose_weights(
    encoder: Encoder, kind: Kind, tune: str, images: Tensor, *, option: str = "--tune", head_only: str = "frozen"
) -> list[str]:
    """Leave gradients to the weights that a mode trains, of those that the features depend on.

    Args:
        encoder: with a module.
        kind: of features.
        tune: ``"full"``, ``"bias"``, ``"norm"``, ``"last-block"`` or ``"lora"``; or as `train_only` calls them.
        images: one or two, to see which weights get a gradient.
        option: that chose it, for messages.
        head_only: its value that trains none of the encoder's weights.

    Returns:
        The names of the weights that are trained.

    Raises:
        EncoderError: there are none; the message says why.
    """
    module, alone = encoder.module, f"{option} {head_only} only"
    if module is None or not any(True for _ in module.parameters()):
        raise EncoderError(f"encoder {encoder.spec!r} shows no weights to train: {alone}")
    module.requires_grad_(True)
    called: set[nn.Module] = set()
    hooks = [part.register_forward_hook(lambda part, *_: called.add(part)) for part in module.modules()]
    try:
        torch.autograd.backward(features_of(encoder, kind, images).sum())
    except RuntimeError as error:
        raise EncoderError(f"encoder {encoder.spec!r} gives no gradients: {alone} ({error})") from error
    finally:
        for hook in hooks:
            hook.remove()
    reached = {name for name, weight in module.named_parameters() if weight.grad is not None}
    module.zero_grad(set_to_none=True)
    module.requires_grad_(False)
    if not reached:
        raise EncoderError(f"encoder {encoder.spec!r} gives no gradients: {alone}")
    try:
        if tune == "lora":
            return _low_rank(module, reached, called)
        train_only(module, _PARTS.get(tune, tune), reached=reached)  # type: ignore[arg-type]  # settings checked it
    except ValueError as error:
        raise EncoderError(f"encoder {encoder.spec!r}: {option} {tune}: {error}") from error
    return [name for name, weight in module.named_parameters() if weight.requires_grad]


def _low_rank(module: nn.Module, reached: set[str], called: set[nn.Module]) -> list[str]:
    """Updates on what the features depend on: attentions, and linear layers that are no part of one."""
    parts = dict(module.named_modules())
    attentions = [name for name, part in parts.items() if isinstance(part, nn.MultiheadAttention) and part in called]
    linear = [
        name
        for name, part in parts.items()
        if isinstance(part, nn.Linear) and f"{name}.weight" in reached and name.rpartition(".")[0] not in attentions
    ]
    if not linear and not attentions:
        raise ValueError("no linear layers and no attentions")
    return add_lora(module, targets=[*attentions, *linear], read=[name for name in linear if parts[name] not in called])


@contextmanager
def untouched(encoder: Encoder) -> Iterator[dict[str, Tensor]]:
    """Put an encoder's weights, modes and layers back as they were, whatever a part did to them.

    Args:
        encoder: any; one without a module is left alone.

    Yields:
        Copies of the weights before.

    Raises:
        EncoderError: weights that differ afterwards all the same.
    """
    module = encoder.module
    if module is None:
        yield {}
        return
    before, mark = (
        {name: value.detach().cpu().clone() for name, value in module.state_dict().items()},
        encoder.fingerprint(),
    )
    attributes = set(vars(module))
    modes = {part: part.training for part in module.modules()}
    try:
        yield before
    finally:
        keep_blocks(module)
        remove_lora(module)
        for name in set(vars(module)) - attributes:  # what PEFT notes of the updates that are gone
            delattr(module, name)
        for part, training in modes.items():
            part.training = training
        module.load_state_dict(before)
        module.requires_grad_(False)
        module.zero_grad(set_to_none=True)
        if encoder.fingerprint() != mark:
            raise EncoderError(f"encoder {encoder.spec!r}: its weights could not be put back after a part")
