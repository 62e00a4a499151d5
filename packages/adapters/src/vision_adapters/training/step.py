"""One optimiser step: its samples, its precision, and its parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from vision_adapters.training.recipe import Precision, Recipe
from vision_adapters.training.shared import Share, each_tensor

Loss = Callable[[Any, Any], Tensor | Mapping[str, Tensor]]


@lru_cache(maxsize=2)
def epoch_order(samples: int, epoch: int, seed: int) -> npt.NDArray[np.int64]:
    """The order of all samples in an epoch; the last two are kept, for every step of an epoch asks for the same one."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch]))).permutation(samples)


def batch_indices(
    samples: int, batch_size: int, step: int, seed: int, cumulative: npt.NDArray[np.float64] | None = None
) -> Tensor:
    """The samples of step 1, 2, …: a new permutation in each epoch, whole batches only; or drawn by weights.

    Those are given as their running sums, the last 1, so that a draw takes log n.

    They depend on the arguments alone, so that a resumed training needs no state for them.
    """
    size = min(batch_size, samples)
    if cumulative is not None:
        draws = np.random.default_rng([seed, step]).random(size)
        return torch.from_numpy(cumulative.searchsorted(draws, side="right"))
    epoch, position = divmod(step - 1, samples // size)
    order = epoch_order(samples, epoch, seed)
    return torch.from_numpy(order[position * size : (position + 1) * size].copy())


def resolved_precision(precision: Precision, device: torch.device) -> Literal["float32", "bfloat16"]:
    """What the forward passes of a training compute in."""
    able = device.type == "cpu" or (device.type == "cuda" and torch.cuda.is_bf16_supported())
    if precision == "bfloat16" and not able:
        raise ValueError(f"precision='bfloat16', but {device} does not compute in it; choose 'float32' or 'auto'")
    if precision == "auto":
        return "bfloat16" if able and device.type == "cuda" else "float32"
    return precision


class Taken(NamedTuple):
    """A step's loss, the norm of its gradient, that of each layer (where asked for), and the loss's terms by name."""

    loss: float
    norm: float
    layers: dict[str, float]
    terms: dict[str, float]


class Stepper:
    """Takes steps.

    With a `share` of a training in several processes, a step is given the inputs of the share, and all targets.
    """

    def __init__(
        self,
        module: nn.Module,
        optimiser: torch.optim.Optimizer,
        loss: Loss,
        recipe: Recipe,
        device: torch.device,
        precision: Literal["float32", "bfloat16"],
        *,
        layers: bool,
        share: Share | None = None,
    ) -> None:
        self.share = share
        self.terms: list[tuple[str, float, Tensor]] = []  # of the parts of a batch, with their shares of it
        self.module, self.optimiser, self.loss = module, optimiser, loss
        self.recipe, self.device, self.layers = recipe, device, layers
        self.narrow = precision == "bfloat16"

    def take(self, step: int, inputs: tuple[Any, ...], targets: Any, lr: float) -> Taken:
        """Step number `step`, the first being 1, on a batch."""
        losses = self._gradient(inputs, targets)
        layers = self._layer_norms() if self.layers else {}
        trained = [parameter for parameter in self.module.parameters() if parameter.grad is not None]
        limit = math.inf if self.recipe.clip_norm is None else self.recipe.clip_norm
        whole = torch.nn.utils.clip_grad_norm_(trained, limit)
        terms = [value for _, _, value in self.terms]
        read = iter(self._numbers([whole, *losses, *terms, *layers.values()]))
        norm, total = next(read), sum(next(read) for _ in losses)
        by_name: dict[str, float] = {}
        for name, part, _ in self.terms:
            by_name[name] = by_name.get(name, 0.0) + part * next(read)
        if not (math.isfinite(total) and math.isfinite(norm)):
            raise FloatingPointError(
                f"step {step}: loss {total} with gradient norm {norm} at learning rate {lr:g}, expected finite numbers"
            )
        self.optimiser.step()
        return Taken(total, norm, dict(zip(layers, read, strict=True)), by_name)

    def _numbers(self, values: Sequence[Tensor]) -> list[float]:
        """Numbers of the device, for all of which it is waited for once."""
        kind = reduce(torch.promote_types, {value.dtype for value in values})
        numbers: list[float] = torch.stack([value.detach().to(self.device, kind) for value in values]).tolist()
        return numbers

    def _gradient(self, inputs: tuple[Any, ...], targets: Any) -> list[Tensor]:
        """Leave the batch's gradient in the parameters, and return the losses of its parts, which add up to its own."""
        self.optimiser.zero_grad(set_to_none=True)
        self.terms = []
        if self.share is not None:
            return self._shared_gradient(self.share, inputs, targets)
        losses = []
        for part in torch.arange(len(targets)).chunk(self.recipe.micro_batches):
            piece = slice(int(part[0]), int(part[-1]) + 1)
            batch = [moved(values[piece], self.device) for values in inputs]
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.narrow):
                output = self.module(*batch)
            truth = moved(targets[piece], self.device)
            value = self._loss(output, truth, len(part) / len(targets))
            torch.autograd.backward(value)
            losses.append(value.detach())
        return losses

    def _shared_gradient(self, share: Share, inputs: tuple[Any, ...], targets: Any) -> list[Tensor]:
        """The same of this process's share of the inputs, with the loss of all processes' outputs."""
        losses, pieces = [], share.pieces(len(targets), self.recipe.micro_batches)
        offset = int(pieces[0][share.rank][0])
        for number, parts in enumerate(pieces, start=1):
            own, rows = parts[share.rank] - offset, torch.cat(parts)
            batch = [moved(values[int(own[0]) : int(own[-1]) + 1], self.device) for values in inputs]
            truth = moved(targets[rows] if isinstance(targets, Tensor) else [targets[n] for n in rows], self.device)
            with share.adding_up(last=number == len(pieces)):
                with torch.autocast(self.device.type, torch.bfloat16, enabled=self.narrow):
                    output = share.parallel(*batch)
                joined = share.gathered(output, [len(part) for part in parts])
                value = self._loss(joined, truth, len(rows) / len(targets))
                torch.autograd.backward(value * share.world)  # of which the mean over processes is taken
            losses.append(value.detach())
        return losses

    def _loss(self, output: Any, truth: Any, share: float) -> Tensor:
        """The loss of a part of a batch, by its share of the samples; its terms are noted."""
        value = self.loss(widened(output) if self.narrow else output, truth)
        if isinstance(value, Tensor):
            return value * share
        for name, term in value.items():
            self.terms.append((name, share, term.detach()))
        return torch.stack(list(value.values())).sum() * share

    def _layer_norms(self) -> dict[str, Tensor]:
        """The norm of the gradient of each module that holds parameters of its own, before clipping."""
        norms = {}
        for name, part in self.module.named_modules():
            own = [p.grad.float().norm() for p in part.parameters(recurse=False) if p.grad is not None]
            if own:
                norms[name or type(part).__name__] = torch.stack(own).norm()
        return norms


def moved(value: Any, device: torch.device) -> Any:
    """Whatever holds tensors on another device; to a GPU from pinned memory, so that the copy waits for nothing."""
    return each_tensor(lambda tensor: _to(tensor, device), value)


def _to(tensor: Tensor, device: torch.device) -> Tensor:
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def widened(output: Any) -> Any:
    """A module's output with every half-precision tensor in float32, in which losses are taken."""
    return each_tensor(lambda tensor: tensor.float() if tensor.is_floating_point() else tensor, output)
