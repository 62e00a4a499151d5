"""What is trained on, how, and what comes of it; needs the extra `torch`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from jaxtyping import Int
from torch import Tensor


class Inputs(Protocol):
    """Rows that a model takes: a tensor of features, or what reads files when it is asked for some."""

    def __getitem__(self, rows: Any, /) -> Any:
        """The rows of a slice or of a tensor of numbers."""
        ...


@dataclass(frozen=True)
class Entities:
    """Inputs of all entities, row by row: `image` (a black one where there is none) and `text`; `count` of them."""

    image: Inputs
    text: Inputs
    count: int = -1

    def __post_init__(self) -> None:
        """Count a tensor's rows."""
        if self.count < 0:
            if not isinstance(self.text, Tensor):
                raise ValueError("count: expected the number of entities where the texts are no tensor")
            object.__setattr__(self, "count", len(self.text))


@dataclass(frozen=True)
class Questions:
    """Questions and the row of the entity that answers each: `image`, `text` [q, …], `truth` [q].

    Example:
        >>> import torch
        >>> Questions(torch.zeros(2, 4), torch.zeros(2, 4), torch.tensor([0, 1])).truth.tolist()
        [0, 1]
    """

    image: Inputs
    text: Inputs
    truth: Int[Tensor, " q"]


@dataclass(frozen=True)
class Recipe:
    """How to train.

    Args:
        steps: most steps; the paper takes 2,000 for CLIP2CLIP and 10,000 for Fusion.
        batch_size: questions per step; 4,096 in the paper.
        lr: learning rate after the warm-up; 1e-4 and 1e-3 in the paper.
        warmup: steps of linear warm-up; 1,000 of Fusion's in the paper.
        final_lr: the rate does not fall below; 1e-6.
        validate_every: steps between two looks at the validation questions.
        patience: looks without a better harmonic mean before training stops.
        seed: of the order of the questions.

    Source: OVEN section 11. Theirs is Adafactor, ours AdamW without decay.
    """

    steps: int = 2000
    batch_size: int = 4096
    lr: float = 1e-4
    warmup: int = 100
    final_lr: float = 1e-6
    validate_every: int = 100
    patience: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be trained."""
        for name in ("steps", "batch_size", "validate_every", "patience", "lr", "final_lr"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: expected above 0, got {getattr(self, name)!r}")
        if self.warmup < 0:
            raise ValueError(f"warmup: expected at least 0, got {self.warmup!r}")


@dataclass(frozen=True)
class Trained:
    """The step whose parameters were kept (0: as it came), its accuracies in percent, and the steps that were taken.

    Example:
        >>> Trained(step=40, seen=30.0, unseen=20.0, harmonic=24.0, steps=100).step
        40
    """

    step: int
    seen: float
    unseen: float
    harmonic: float
    steps: int


def learning_rate(step: int, recipe: Recipe) -> float:
    """Linear warm-up, then decay with the square root of the step."""
    warmup = max(1, recipe.warmup)
    if step <= warmup:
        return recipe.lr * step / warmup
    return max(recipe.lr * math.sqrt(warmup / step), recipe.final_lr)
