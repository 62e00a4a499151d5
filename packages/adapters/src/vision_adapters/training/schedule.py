"""Parameter groups and the learning rate over the steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from vision_adapters.training.optimisers import PlainAdamW, PlainSGD
from vision_adapters.training.recipe import Recipe

NORMS = (
    nn.LayerNorm,
    nn.GroupNorm,
    nn.modules.batchnorm._BatchNorm,
    nn.modules.instancenorm._InstanceNorm,
)


def optimiser_for(module: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """A recipe's optimiser over the trainable parameters of a module."""
    groups = parameter_groups(module, recipe.weight_decay, recipe.head_lr_scale)
    if recipe.optimiser == "sgd":
        every = [{**group, "weight_decay": recipe.weight_decay} for group in groups]
        return PlainSGD(every, lr=recipe.lr, momentum=recipe.momentum)
    return PlainAdamW(groups, lr=recipe.lr, betas=recipe.betas, eps=recipe.eps)


def parameter_groups(module: nn.Module, weight_decay: float, head_lr_scale: float = 1.0) -> list[dict[str, Any]]:
    """Split the trainable parameters by whether they decay and by their learning rate.

    Groups for a torch optimiser: matrices and kernels with the decay; biases, norms and scalars without; each for what
    is under `module.head` where its rate differs. `lr_scale` holds the factor. A module's own
    `lr_scale(path, parameter)` multiplies it, for text sides that learn slower, or biases that learn faster.
    """
    own: Callable[[str, Tensor], float] = getattr(module, "lr_scale", lambda path, parameter: 1.0)
    groups: dict[tuple[float, float], list[Tensor]] = {}
    seen_ids: set[int] = set()
    for path, part in module.named_modules():
        in_head = path == "head" or path.startswith("head.")
        for name, parameter in part.named_parameters(recurse=False):
            if not parameter.requires_grad or id(parameter) in seen_ids:
                continue
            seen_ids.add(id(parameter))
            without = isinstance(part, NORMS) or parameter.ndim < 2 or name.endswith("bias")
            scale = (head_lr_scale if in_head else 1.0) * own(f"{path}.{name}" if path else name, parameter)
            key = (scale, 0.0 if without else weight_decay)
            groups.setdefault(key, []).append(parameter)
    if not groups:
        raise ValueError(f"{type(module).__name__} has no trainable parameter")
    ordered = sorted(groups.items(), key=lambda item: (item[0][0], -item[0][1]))
    return [{"params": params, "weight_decay": decay, "lr_scale": scale} for (scale, decay), params in ordered]


class Rate:
    """The learning rate of each step; its state is a few numbers."""

    def __init__(self, recipe: Recipe, optimiser: torch.optim.Optimizer) -> None:
        self.recipe, self.optimiser = recipe, optimiser
        self.plateau = 1.0
        self.best_loss = math.inf
        self.best_score = -math.inf
        self.waited = 0

    def set(self, step: int) -> float:
        """Set and return the rate of step number `step`, the first being 1."""
        recipe = self.recipe
        if recipe.schedule == "plateau":
            scale = self.plateau
        elif step <= recipe.warmup:
            scale = step / recipe.warmup
        elif recipe.schedule == "cosine":
            scale = 0.5 * (1 + math.cos(math.pi * (step - 1 - recipe.warmup) / max(1, recipe.steps - recipe.warmup)))
        else:
            scale = 1.0
        for group in self.optimiser.param_groups:
            group["lr"] = recipe.lr * scale * group["lr_scale"]
        return recipe.lr * scale

    def observe(self, loss: float) -> None:
        """Take in a step's training loss (only the plateau schedule uses it)."""
        if self.recipe.schedule != "plateau" or self.recipe.plateau_on != "loss":
            return
        if loss < self.best_loss * (1 - self.recipe.threshold):
            self.best_loss, self.waited = loss, 0
        else:
            self.waited += 1
        if self.waited > self.recipe.patience:
            self.plateau = max(self.plateau * self.recipe.factor, self.recipe.least_lr / self.recipe.lr)
            self.waited = 0

    def validated(self, score: float) -> None:
        """Take in a validation's score, the larger the better (only the plateau on validations uses it)."""
        recipe = self.recipe
        if recipe.schedule != "plateau" or recipe.plateau_on != "validation":
            return
        if score > self.best_score:
            self.best_score, self.waited = score, 0
        else:
            self.waited += 1
        if self.waited >= max(1, recipe.patience):
            self.plateau, self.waited = max(self.plateau * recipe.factor, recipe.least_lr / recipe.lr), 0

    def state(self) -> dict[str, float]:
        """What `load` needs to go on."""
        numbers = {"plateau": self.plateau, "best_loss": self.best_loss, "waited": self.waited}
        return numbers if math.isinf(self.best_score) else {**numbers, "best_score": self.best_score}

    def load(self, state: dict[str, float]) -> None:
        """Go on from `state`."""
        self.plateau, self.best_loss, self.waited = state["plateau"], state["best_loss"], int(state["waited"])
        self.best_score = state.get("best_score", -math.inf)
