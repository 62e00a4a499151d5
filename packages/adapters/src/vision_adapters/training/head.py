"""Train a head, or an encoder with its head: from where, at which rates, and how an interrupted one goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from vision_adapters.progress import Progress
from vision_adapters.recompute import recomputed
from vision_adapters.rows import Rows
from vision_adapters.training.backbones import Backbone, EncoderWithHead, FrozenFeatures, SplitName
from vision_adapters.training.checkpoint import changing_state
from vision_adapters.training.fit import fit
from vision_adapters.training.outcome import Direction, Fit, Validation
from vision_adapters.training.rates import rungs, work
from vision_adapters.training.recipe import Recipe
from vision_adapters.training.scale import Scale

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


_LOG = logging.getLogger(__name__)

Inputs = tuple[Rows, ...]
"""A split's rows for an `EncoderWithHead`: the backbone's first."""


@dataclass(frozen=True, eq=False)
class ProbeInit:
    """Start a head where it ends on the features of the untrained encoder: linear probing, then fine-tuning (LP-FT).

    `rates`, `checkpoint` and `progress` are those of `fit_head`, for the training by `recipe` on `features`. `targets`
    replace those of `fit_head`, which may change from step to step (moved together with augmented images).

    Example:
        >>> from vision_adapters.training import TrainedEncoder
        >>> x, y = torch.eye(4).repeat(8, 1).reshape(32, 1, 2, 2), torch.arange(4).repeat(8)
        >>> encoder = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
        >>> before = FrozenFeatures(lambda split: encoder(x).detach())
        >>> start = ProbeInit(before, Recipe(lr=0.1, steps=40, batch_size=16, validate_every=20))
        >>> cross_entropy = nn.functional.cross_entropy
        >>> done = fit_head(
        ...     TrainedEncoder(encoder, encoder, lambda split: x, before.scale), nn.Linear(3, 4), y, init=start,
        ...     recipe=Recipe(lr=1e-3, steps=2, batch_size=16, validate_every=1), loss=cross_entropy, seed=0,
        ...     validate=lambda module, inputs: float(cross_entropy(module(*inputs), y)), direction="lower",
        ... )
        >>> done.history[0].score < 0.5  # the training of the whole begins where the probe ends
        True

    Source:
        Kumar et al., Fine-tuning can distort pretrained features and underperform out-of-distribution (2022).
    """

    features: FrozenFeatures
    recipe: Recipe
    rates: Sequence[float] = (1.0,)
    checkpoint: Path | None = None
    progress: Progress | None = None
    targets: Rows | None = None


class Tried(NamedTuple):
    """A learning rate, after how many steps its training ended, and the best validation until then."""

    lr: float
    steps: int
    score: float


@dataclass(frozen=True, eq=False)
class Trained(Fit):
    """A training of a head with what is in front of it."""

    module: EncoderWithHead  # with the weights that validated best, in evaluation mode
    start: Mapping[str, Tensor]  # what the training could change, before it
    recipe: Recipe  # by which it was trained in the end
    tried: Sequence[Tried] = ()  # how far each learning rate got, where there were several


def fit_head(
    backbone: Backbone,
    head: nn.Module,
    targets: Rows,
    *,
    loss: Callable[[Any, Any], Tensor],
    recipe: Recipe,
    validate: Callable[[EncoderWithHead, Inputs], float],
    direction: Direction,
    seed: int,
    init: ProbeInit | Mapping[str, Tensor] | None = None,
    rates: Sequence[float] = (1.0,),
    inputs: Callable[[Backbone, SplitName], Inputs] | None = None,
    scales: Sequence[Scale | None] = (),
    micro_batches: int = 1,
    checkpoint: Path | None = None,
    belongs_to: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    device: torch.device | str | None = None,
    keep: int = 1,
    layers: bool = False,
    group: ProcessGroup | None = None,
    sample_weights: Tensor | None = None,
    watch: Callable[[Validation], None] | None = None,
) -> Trained:
    """Train a head behind a backbone; where that is a `TrainedEncoder`, the encoder learns with it.

    Args:
        backbone: `FrozenFeatures` or `TrainedEncoder`.
        head: called as ``head(features, *others)``; trained in place.
        targets: of the training split.
        loss: of the head's outputs and the targets; a mean over samples.
        recipe: see `fit`.
        validate: scores the module on its inputs of the validation split.
        direction: see `fit`.
        seed: see `fit`.
        init: where the head starts: None for where it is (zeros, class texts, random), a ``state_dict`` of it, or
            `ProbeInit`, which trains it on the untrained encoder's features first.
        rates: factors of the recipe's learning rate, a training for each; half of them end after a quarter of the
            steps, all but the one that validates best after a half.
        inputs: a backbone and a split to what the module is called on; by default the backbone's rows alone.
        scales: of each input behind the first, None for one that is left as it is.
        micro_batches: into how many parts the module passes a batch, computed again in the backward pass; the loss sees
            the whole batch, so that the gradient stays the same for losses that do not average over samples (dice).
        checkpoint: other rates add to its name. One that is damaged, or of another training, is warned about, and the
            training starts anew.
        belongs_to: see `fit`.
        progress: told ("train", step, steps of all trainings).
        device: see `fit`.
        keep: see `fit`.
        layers: see `fit`.
        group: the head's own training before (`ProbeInit`) is each process's.
        sample_weights: see `fit`.
        watch: see `fit`; of several rates, those of each in turn.

    Example:
        >>> from vision_adapters import LinearHead, Recipe
        >>> from vision_adapters.heads import seeded
        >>> x, y = torch.tensor([[1.0], [-1.0], [2.0], [-2.0]]), torch.tensor([0, 1, 0, 1])
        >>> def accuracy(module, inputs):
        ...     return float((module(*inputs).argmax(1) == y).float().mean())
        >>> done = fit_head(
        ...     FrozenFeatures(lambda split: x), seeded(lambda: LinearHead(1, 2), 0), y,
        ...     loss=torch.nn.functional.cross_entropy, recipe=Recipe(lr=0.1, steps=8, batch_size=4, validate_every=4),
        ...     validate=accuracy, direction="higher", seed=0, rates=(1.0, 0.1),
        ... )
        >>> done.best_score, [(round(rate.lr, 2), rate.steps) for rate in done.tried]
        (1.0, [(0.1, 8), (0.01, 4)])
    """
    if inputs is None:
        inputs = lambda backbone, name: (backbone.rows(name),)  # noqa: E731 - of a type that a function would repeat
    if isinstance(init, ProbeInit):
        before = targets if init.targets is None else init.targets
        fit_head(
            init.features, head, before, loss=loss, recipe=init.recipe, validate=validate, direction=direction,
            seed=seed, rates=init.rates, inputs=inputs, scales=scales, micro_batches=micro_batches,
            checkpoint=init.checkpoint, belongs_to=belongs_to, progress=init.progress, device=device,
            sample_weights=sample_weights,
        )  # fmt: skip
    elif init is not None:
        head.load_state_dict(init)
    module = backbone.attach(head, *scales)
    in_micro_batches(module, min(micro_batches, recipe.batch_size))
    start, held, train = changing_state(module), inputs(backbone, "validation"), inputs(backbone, "train")
    recipes = [replace(recipe, lr=recipe.lr * factor) for factor in rates]
    total_steps = work(recipe.steps, recipe.validate_every, len(recipes)).steps

    def train_until(number: int, stop: int, ahead: int, path: Path | None) -> Fit:
        module.load_state_dict(start, strict=False)
        return fit(
            module,
            train,
            targets,
            loss=loss,
            recipe=recipes[number],
            validate=lambda trained: validate(module, held),
            direction=direction,
            seed=seed,
            checkpoint=path,
            belongs_to=belongs_to,
            progress=None if progress is None else lambda phase, done, _: progress(phase, ahead + done, total_steps),
            device=device,
            keep=keep,
            layers=layers,
            group=group,
            stop=stop if stop < recipe.steps else None,
            sample_weights=sample_weights,
            watch=watch,
        )

    def go_on(number: int, stop: int, ahead: int, first: Path | None) -> Fit:
        path = first if first is None or number == 0 else first.with_name(f"{first.name}.rate{number}")
        try:
            return train_until(number, stop, ahead, path)
        except ValueError as error:
            if path is None or not str(error).startswith(f"{path} "):
                raise
            _LOG.warning("%s: starting this training again", error)
            path.unlink(missing_ok=True)
            return train_until(number, stop, ahead, path)

    def best_of_all(first: Path | None) -> Trained:
        sign = 1.0 if direction == "higher" else -1.0
        going, ahead = list(range(len(recipes))), 0
        tried: dict[int, tuple[int, float]] = {}
        for rung in rungs(recipe.steps, recipe.validate_every, len(recipes)):
            going = sorted(going, key=lambda number: -sign * tried.get(number, (0, 0.0))[1])[: rung.trainings]
            for number in sorted(going):
                done = go_on(number, rung.stop, ahead - rung.start, first)
                ahead += rung.stop - rung.start
                scores = [row.score for row in done.history if row.step <= rung.stop]
                tried[number] = (rung.stop, sign * max(sign * score for score in scores))
        (best,) = going
        rows = (
            [Tried(recipes[number].lr, *outcome) for number, outcome in sorted(tried.items())] if len(tried) > 1 else []
        )
        return Trained(**vars(done), module=module, start=start, recipe=recipes[best], tried=rows)

    if checkpoint is not None or len(recipes) == 1:
        return best_of_all(checkpoint)
    with TemporaryDirectory() as folder:  # what stops and goes on later takes a file
        return best_of_all(Path(folder) / "head.pt")


def in_micro_batches(module: nn.Module, count: int) -> None:
    """Let a module pass each training batch in parts, computed again in the backward pass instead of kept."""
    if count == 1:
        return
    full_forward = module.forward
    again = recomputed(module, full_forward)

    def forward(*inputs: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            result: Tensor = full_forward(*inputs)
            return result
        pieces = zip(*(rows.chunk(count) for rows in inputs), strict=True)
        return torch.cat([again(*piece) for piece in pieces])

    setattr(module, "forward", forward)  # noqa: B010 - an attribute of this one instance, which a type checker refuses
