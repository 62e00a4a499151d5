"""What a training leaves behind: validations, the best checkpoints, and their ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor

Direction = Literal["higher", "lower"]


class Kept(NamedTuple):
    """A validated checkpoint: its step, its score, and what training can change."""

    step: int
    score: float
    state: dict[str, Tensor]


class Validation(NamedTuple):
    """One validation: its step and score, and the training since the one before."""

    step: int
    score: float
    loss: float  # its mean over those steps, NaN at step 0
    gradient_norm: float  # likewise
    rate: float  # the last learning rate
    layers: dict[str, float]  # mean gradient norm of each module that holds parameters, where `fit` was asked for them
    terms: dict[str, float] = {}  # noqa: RUF012 - means of a loss's terms, where it names them; never changed


class Gradients(NamedTuple):
    """Norms of the gradient, means over the steps since the row before."""

    step: int
    norm: float
    layers: dict[str, float]  # of each module that holds parameters


@dataclass(frozen=True, eq=False)
class Fit:
    """The outcome of a training."""

    best_step: int  # of the best validation, the earliest among equals; its weights are in the module
    best_score: float
    history: list[Validation]  # in order
    seconds: float  # in the loop, summed over interruptions
    kept: list[Kept]  # the best validated checkpoints, best first, as many as `fit` was asked to keep
    precision: Literal["float32", "bfloat16"]  # of the training's forward passes
    gradients: list[Gradients]  # every 100 steps and at each validation, where `fit` was asked for layers


def best_first(checkpoints: Sequence[Kept], direction: Direction) -> list[Kept]:
    """Sort by score, the best first, the earlier step first among equals."""
    sign = -1.0 if direction == "higher" else 1.0
    return sorted(checkpoints, key=lambda row: (sign * row.score, row.step))
