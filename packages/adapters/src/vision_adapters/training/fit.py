"""The training loop: minibatches from an explicit order, validation, the best weights, and resumption."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from vision_adapters.heads import global_seed
from vision_adapters.progress import Progress
from vision_adapters.rows import Rows
from vision_adapters.rows.source import Draw, drawn
from vision_adapters.training.checkpoint import changing_state, fingerprint, load, require_whole, restoring, save
from vision_adapters.training.outcome import Direction, Fit, Gradients, Kept, Validation, best_first
from vision_adapters.training.recipe import Recipe
from vision_adapters.training.schedule import Rate, optimiser_for
from vision_adapters.training.shared import Share, from_first
from vision_adapters.training.step import Loss, Stepper, Taken, batch_indices, resolved_precision

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_GRADIENTS_EVERY = 100
"""Steps between rows of `Fit.gradients`, as GATE's figure 2 has them."""


def fit(
    module: nn.Module,
    inputs: tuple[Rows, ...],
    targets: Rows,
    *,
    loss: Loss,
    recipe: Recipe,
    validate: Callable[[nn.Module], float],
    direction: Direction,
    seed: int,
    checkpoint: Path | None = None,
    belongs_to: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    device: torch.device | str | None = None,
    keep: int = 1,
    layers: bool = False,
    group: ProcessGroup | None = None,
    stop: int | None = None,
    sample_weights: Tensor | None = None,
    watch: Callable[[Validation], None] | None = None,
    choose: Literal["best", "last"] = "best",
) -> Fit:
    """Train a module in place and leave in it the weights that validated best, the untrained ones included.

    Args:
        module: called as `module(*batch)`; parameters that need no gradient are left alone.
        inputs: rows, see `vision_adapters.rows`: tensors (frozen features, token grids, uint8 images), features in a
            file, or images that worker processes decode and augment.
        targets: one per sample: rows again, so a tensor, or lists of what is ragged (boxes).
        loss: of the module's output and the batch's targets; a mean over samples, or terms by name, whose sum it is and
            whose means the history holds.
        recipe: optimiser, schedule, length.
        validate: scores the module, which is in eval mode, without gradients.
        direction: "higher" or "lower" is better.
        seed: of the order of the samples, and of the global generator (dropout) inside the loop.
        checkpoint: a file for the state, written after each validation. If it exists, the training goes on from it and
            ends with the same bits as one that was never interrupted. A finished one is only read.
        belongs_to: what else must be equal for a checkpoint to be of this training, by name: the weights that it starts
            at, the metric that chooses, a digest of the files that rows are decoded from; what differs is shown.
        progress: called after each step with ("train", step, steps).
        device: where the module and each batch go; by default, where the first input is if it is a tensor.
        keep: how many of the best validated checkpoints to keep, for `wise_ft` and means of their outputs.
        layers: whether to record the gradient norm of each layer: in the history its mean since the validation before,
            and in `Fit.gradients` its mean over each 100 steps.
        group: of processes that all call this with the same arguments, each with a device of its own: every batch is
            shared among them (`torch.nn.parallel.DistributedDataParallel`), and all end with the same weights. The
            first one validates, and reads and writes the checkpoint.
        stop: a validated step after which this call ends; a later one with the same checkpoint goes on to the same
            bits.
        sample_weights: [n], >= 0: samples are drawn with replacement, each as likely as its weight says, so that
            classes with few samples are seen as often as others; by default, each sample is seen once an epoch.
        watch: told each validation, in the first process.
        choose: "last" leaves the weights of the last step in it instead, where nothing is left to validate on.

    Raises:
        ValueError: what cannot be trained on, with its place, or a checkpoint of another training, with the values.
        FloatingPointError: a loss, gradient or validation score that is not finite, with the step and the learning
            rate. A checkpoint stays as the last validation left it.
        BrokenSampleError: a sample that cannot be made, by its index.
        WorkerDiedError: a worker process that died; the checkpoint stays.

    Numerics:
        The same call gives the same bits on the same machine and thread count, as far as the module's own operations do
        (on CUDA, some backward passes add in no fixed order). The batch of a step, augmentation included, depends on
        the seed and the step alone, whatever the number of worker processes. With bfloat16, forward passes run under
        autocast: weights, gradients and optimiser stay float32, losses are taken in float32, and `validate` is called
        outside of it. Several processes take the gradient of the whole batch, for any loss of its outputs, up
        to the order in which floats are added; random numbers (dropout) and statistics of batch normalisation are each
        process's own, and the first one's statistics count. Memory that runs out in one of them is an error.

    Example:
        >>> from vision_adapters.heads import LinearHead, seeded
        >>> from vision_adapters.losses import cross_entropy
        >>> from vision_adapters.training import Recipe
        >>> x, y = torch.tensor([[1.0], [-1.0], [2.0], [-2.0]]), torch.tensor([0, 1, 0, 1])
        >>> head = seeded(lambda: LinearHead(1, 2), 0)
        >>> recipe = Recipe(lr=0.1, steps=20, batch_size=2, validate_every=10)
        >>> accuracy = lambda m: float((m(x).argmax(1) == y).float().mean())
        >>> done = fit(head, (x,), y, loss=cross_entropy, recipe=recipe, validate=accuracy, direction="higher", seed=0)
        >>> done.best_score
        1.0

    Source:
        GATE, section 8.1: validation at intervals and the best validated weights; validating step 0 is ours, and makes
        a language-initialised head never worse on validation than zero-shot.
    """
    first = inputs[0] if inputs else None
    device = torch.device(device or (first.device if isinstance(first, Tensor) else "cpu"))
    _check(inputs, targets, direction, seed)
    if keep < 1:
        raise ValueError(f"keep must be at least 1, got {keep}")
    likely = None if sample_weights is None else _likely(sample_weights, len(targets))
    cumulative = None if likely is None else likely.cumsum() / likely.cumsum()[-1]
    last = recipe.steps if stop is None else min(stop, recipe.steps)
    if last < recipe.steps and (last < 0 or last % recipe.validate_every):
        raise ValueError(f"stop must be a step that is validated, a multiple of {recipe.validate_every}, got {stop}")
    if last < recipe.steps and checkpoint is None:
        raise ValueError(f"to stop at step {stop} of {recipe.steps} and go on later takes a checkpoint, got None")
    module.to(device)
    first_of_all = group is None or group.rank() == 0
    optimiser = optimiser_for(module, recipe)
    rate = Rate(recipe, optimiser)
    precision = resolved_precision(recipe.precision, device)
    marks: dict[str, str] = {}
    if checkpoint is not None:
        marks = fingerprint(inputs, targets, recipe, seed, direction, module)
        marks |= {"keep": str(keep), "layers": str(layers), "precision": precision, **(belongs_to or {})}
        marks |= {"choose": choose} if choose != "best" else {}
        if likely is not None:
            marks["sample_weights"] = hashlib.sha256(likely.tobytes()).hexdigest()[:16]
        for partial in checkpoint.parent.glob(
            f"{checkpoint.name}.*.partial"
        ):  # of a process that was killed as it wrote
            partial.unlink(missing_ok=True)
    history: list[Validation] = []
    best: list[Kept] = []
    done, seconds = 0, 0.0
    records: list[Taken] = []
    recent: list[Taken] = []
    gradients: list[Gradients] = []
    now = math.nan

    with ExitStack() as stack:
        stack.enter_context(global_seed(seed))
        state: dict[str, Any] | None = None
        if checkpoint is not None and first_of_all and checkpoint.exists():
            state = load(checkpoint, marks)
        state = from_first(state, group, device)
        share = None if group is None else Share(module, group, device, min(recipe.batch_size, len(targets)))
        stepper = Stepper(module, optimiser, loss, recipe, device, precision, layers=layers, share=share)
        if state is not None:
            with restoring(checkpoint):
                require_whole(state, changing_state(module).keys(), recipe.steps)
                module.load_state_dict(state["module"], strict=False)
                optimiser.load_state_dict(state["optimiser"])
                rate.load(state["rate"])
                if group is None:
                    torch.set_rng_state(state["generator"].cpu())
                if group is None and device.type == "cuda":
                    torch.cuda.set_rng_state(state["device_generator"].cpu(), device)
                history = [Validation(int(row[0]), *row[1:]) for row in state["history"]]
                best = [Kept(*row) for row in state["kept"]]
                gradients = [Gradients(*row) for row in state["gradients"]]
                done, seconds = state["step"], state["seconds"]
        if share is not None:
            share.agree(seed, done)
        wholes, shares = tee(
            Draw(seed, step, batch_indices(len(targets), recipe.batch_size, step, seed, cumulative))
            for step in range(done + 1, last + 1)
        )
        own = shares if share is None else (draw._replace(rows=share.rows(draw.rows)) for draw in shares)
        batches = stack.enter_context(closing(drawn(inputs, own)))
        truths = stack.enter_context(closing(drawn((targets,), wholes)))
        start = time.perf_counter()

        for step in range(done if not history else done + 1, last + 1):
            if _ended(history, recipe.stop, direction):
                break
            if step > 0:
                batch, (truth,) = next(batches), next(truths)
                module.train()
                now = rate.set(step)
                records.append(stepper.take(step, batch, truth, now))
                rate.observe(records[-1].loss)
                recent.append(records[-1])
            validated = step % recipe.validate_every == 0 or step == recipe.steps
            if layers and recent and (validated or step % _GRADIENTS_EVERY == 0):
                gradients.append(Gradients(step, *_means(recent)))
                recent = []
            score: float | None = None
            if validated:
                if share is not None:
                    share.agree(seed, step)
                score = from_first(_validated(module, validate, step) if first_of_all else None, group, device)
                if choose == "last":
                    best = [Kept(step, score, changing_state(module))]
                elif len(best) < keep or _better(score, best[-1].score, direction):
                    best = best_first([*best, Kept(step, score, changing_state(module))], direction)[:keep]
                history.append(_validation(step, score, records, now))
                rate.validated(score if direction == "higher" else -score)
                records = []
                if watch is not None and first_of_all:
                    watch(history[-1])
                if checkpoint is not None and first_of_all:
                    state = {
                        "fingerprint": marks,
                        "step": step,
                        "module": changing_state(module),
                        "kept": [tuple(row) for row in best],
                        "optimiser": optimiser.state_dict(),
                        "rate": rate.state(),
                        "generator": torch.get_rng_state(),
                        "history": [tuple(row) for row in history],
                        "gradients": [tuple(row) for row in gradients],
                        "seconds": seconds + time.perf_counter() - start,
                    }
                    if device.type == "cuda":
                        state["device_generator"] = torch.cuda.get_rng_state(device)
                    save(checkpoint, state)
            if progress is not None:
                progress("train", step, recipe.steps)
        seconds += time.perf_counter() - start

    module.load_state_dict(best[0].state, strict=False)
    module.eval()
    return Fit(best[0].step, best[0].score, history, seconds, best, precision, gradients)


def _likely(weights: Tensor, samples: int) -> npt.NDArray[np.float64]:
    """Weights of samples as probabilities."""
    numbers = weights.detach().cpu().double().numpy()
    if numbers.shape != (samples,) or not (np.isfinite(numbers).all() and (numbers >= 0).all() and numbers.any()):
        raise ValueError(f"sample_weights must be {samples} finite numbers of at least 0, not all 0")
    probabilities: npt.NDArray[np.float64] = numbers / numbers.sum()
    return probabilities


def _validated(module: nn.Module, validate: Callable[[nn.Module], float], step: int) -> float:
    """The validation score, in eval mode and without gradients."""
    module.eval()
    with torch.no_grad():
        score = float(validate(module))
    if not math.isfinite(score):
        raise FloatingPointError(f"step {step}: the validation score is {score}, expected a finite number")
    return score


def _better(score: float, than: float, direction: Direction) -> bool:
    """Whether `score` is strictly better."""
    return score > than if direction == "higher" else score < than


def _ended(history: Sequence[Validation], stop: int | None, direction: Direction) -> bool:
    """Whether so many validations in a row were no better than the best before them."""
    if stop is None or len(history) <= stop:
        return False
    best = 0
    for number, row in enumerate(history):
        if _better(row.score, history[best].score, direction):
            best = number
    return len(history) - 1 - best >= stop


def _validation(step: int, score: float, records: list[Taken], rate: float) -> Validation:
    """A row of the history: means over the steps since the row before, NaN for none."""
    first = records[0] if records else Taken(math.nan, math.nan, {}, {})
    terms = {name: _mean([row.terms[name] for row in records if name in row.terms]) for name in first.terms}
    norm, layers = _means(records)
    return Validation(step, score, _mean([row.loss for row in records]), norm, rate, layers, terms)


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def _means(records: list[Taken]) -> tuple[float, dict[str, float]]:
    """The mean norm of the gradient over steps, and that of each layer."""
    names = records[0].layers if records else {}
    layers = {name: _mean([row.layers[name] for row in records if name in row.layers]) for name in names}
    return _mean([row.norm for row in records]), layers


def _check(inputs: tuple[Rows, ...], targets: Rows, direction: str, seed: int) -> None:
    """Refuse what cannot be trained on."""
    if not inputs or len(targets) == 0:
        raise ValueError(
            f"expected at least one input and one sample, got {len(inputs)} inputs, {len(targets)} targets"
        )
    for number, rows in enumerate(inputs):
        if len(rows) != len(targets):
            raise ValueError(f"input {number} has {len(rows)} samples but there are {len(targets)} targets")
        if isinstance(rows, Tensor) and rows.is_floating_point():
            for first in range(0, len(rows), 4096):  # in parts: no second copy of all features
                finite = torch.isfinite(rows[first : first + 4096]).flatten(1).all(1)
                if not bool(finite.all()):
                    raise ValueError(
                        f"input {number}, sample {first + int((~finite).nonzero()[0])} holds NaN or infinity"
                    )
    if direction not in ("higher", "lower"):
        raise ValueError(f"direction must be 'higher' or 'lower', got {direction!r}")
    if seed < 0:
        raise ValueError(f"seed must be at least 0, got {seed}")
