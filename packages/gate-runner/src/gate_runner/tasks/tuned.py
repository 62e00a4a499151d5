"""A backbone that is trained: rows are images, and the encoder learns together with the head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from gate_runner.benchmarks.request import SplitName
from gate_runner.errors import EncoderError
from gate_runner.tasks.attached import Attached
from gate_runner.tasks.augmentation import Augmented
from gate_runner.tasks.features import Kind, images_at
from gate_runner.tasks.recipes import augments
from gate_runner.tasks.scaling import Scale
from gate_runner.tasks.stored import EncodedRows
from vision_adapters.finetune import keep_blocks, recompute_blocks
from vision_adapters.rows import Rows, SampleRows

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder
    from gate_runner.tasks.job import Job

_FOR_SCALE = 256
"""Training images on which the scale of the untrained features is measured."""
_PARTS = {"full": "all", "bias": "bias", "norm": "norm", "last-block": "last_block"}


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
        with torch.random.fork_rng(devices=[]):  # low-rank updates start at random
            torch.manual_seed(job.seed)
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


def choose_weights(encoder: Encoder, kind: Kind, tune: str, images: Tensor) -> list[str]:
    """Leave gradients to the weights that a mode trains, of those that the features depend on.

    Args:
        encoder: with a module.
        kind: of features.
        tune: ``"full"``, ``"bias"``, ``"norm"``, ``"last-block"`` or ``"lora"``.
        images: one or two, to see which weights get a gradient.

    Returns:
        The names of the weights that are trained.

    Raises:
        EncoderError: there are none; the message says why.
    """
    from vision_adapters.finetune import add_lora, train_only

    module = encoder.module
    if module is None or not any(True for _ in module.parameters()):
        raise EncoderError(f"encoder {encoder.spec!r} shows no weights to train: --tune frozen only")
    module.requires_grad_(True)
    try:
        torch.autograd.backward(features_of(encoder, kind, images).sum())
    except RuntimeError as error:
        raise EncoderError(f"encoder {encoder.spec!r} gives no gradients: --tune frozen only ({error})") from error
    reached = {name for name, weight in module.named_parameters() if weight.grad is not None}
    module.zero_grad(set_to_none=True)
    module.requires_grad_(False)
    if not reached:
        raise EncoderError(f"encoder {encoder.spec!r} gives no gradients: --tune frozen only")
    try:
        if tune == "lora":
            linear = [
                name
                for name, part in module.named_modules()
                if isinstance(part, nn.Linear) and f"{name}.weight" in reached and not _in_attention(module, name)
            ]
            if not linear:
                raise EncoderError(f"encoder {encoder.spec!r} has no linear layers for --tune lora")
            return add_lora(module, targets=linear)
        train_only(module, _PARTS[tune], reached=reached)  # type: ignore[arg-type]  # settings checked it
    except ValueError as error:
        if isinstance(error, EncoderError):
            raise
        raise EncoderError(f"encoder {encoder.spec!r}: --tune {tune}: {error}") from error
    return [name for name, weight in module.named_parameters() if weight.requires_grad]


def _in_attention(module: nn.Module, name: str) -> bool:
    """Whether a layer lies in torch's own attention, which reads its weights without calling it."""
    parent = name.rpartition(".")[0]
    return bool(parent) and isinstance(module.get_submodule(parent), nn.MultiheadAttention)


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
    layers = {name: (part, part.training) for name, part in module.named_modules()}
    try:
        yield before
    finally:
        keep_blocks(module)
        for name in set(vars(module)) - attributes:  # what PEFT notes of the updates that are gone
            delattr(module, name)
        _put_back(module, layers)
        module.load_state_dict(before)
        module.requires_grad_(False)
        module.zero_grad(set_to_none=True)
        if encoder.fingerprint() != mark:
            raise EncoderError(f"encoder {encoder.spec!r}: its weights could not be put back after a part")


def _put_back(module: nn.Module, layers: Mapping[str, tuple[Any, bool]]) -> None:
    """The layers that were there, where low-rank updates were put around some of them."""
    for name, (part, training) in layers.items():
        parent, _, own = name.rpartition(".")
        if name and layers[parent][0]._modules.get(own) is not part:
            layers[parent][0]._modules[own] = part
        part.training = training
