"""What a training leaves behind: validations, the best checkpoints, and their ensemble."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

Direction = Literal["higher", "lower"]


class Kept(NamedTuple):
    """A validated checkpoint: its step, its score, and what training can change.

    Example:
        >>> import torch
        >>> Kept(step=20, score=0.8, state={"weight": torch.ones(1)}).step
        20
    """

    step: int
    score: float
    state: dict[str, Tensor]


class Validation(NamedTuple):
    """One validation: its step and score, and the training since the one before.

    `loss` and `gradient_norm` are means over those steps (NaN at step 0), `rate` the last learning rate, and `layers`
    the mean gradient norm of each layer (a module that holds parameters of its own) where `fit` was asked for them;
    `terms` are the means of a loss's terms, where it names them.

    Example:
        >>> Validation(step=20, score=0.8, loss=0.4, gradient_norm=1.5, rate=1e-3, layers={}).score
        0.8
    """

    step: int
    score: float
    loss: float
    gradient_norm: float
    rate: float
    layers: dict[str, float]
    terms: dict[str, float] = {}  # noqa: RUF012 - a field of a record, and never changed


@dataclass(frozen=True, eq=False)
class Fit:
    """The outcome of a training.

    Args:
        best_step: step of the best validation, the earliest among equals; its weights are in the module.
        best_score: its score.
        history: every validation, in order.
        seconds: time in the loop, summed over interruptions.
        kept: the best validated checkpoints, best first, as many as `fit` was asked to keep.
        micro_batches: into how many parts a batch was cut in the end: the recipe's, or more where memory ran out.
        precision: what the forward passes of the training computed in.

    Example:
        >>> import torch
        >>> from vision_adapters import LinearHead, Recipe, fit
        >>> x, y = torch.eye(4).repeat(8, 1), torch.arange(4).repeat(8)
        >>> how = Recipe(lr=1e-2, steps=4, batch_size=8, validate_every=2)
        >>> loss = torch.nn.functional.cross_entropy
        >>> trained = fit(
        ...     LinearHead(4, 4), (x,), y, loss=loss, recipe=how, validate=lambda head: 0.5, direction="higher", seed=0
        ... )
        >>> trained.best_step, [row.step for row in trained.history]
        (0, [0, 2, 4])
    """

    best_step: int
    best_score: float
    history: list[Validation]
    seconds: float
    kept: list[Kept]
    micro_batches: int
    precision: Literal["float32", "bfloat16"]


Scored = TypeVar("Scored", Kept, Validation)


def best_first(validated: Sequence[Scored], direction: Direction) -> list[Scored]:
    """Sort by score, the best first, the earlier step first among equals.

    Args:
        validated: checkpoints or validations.
        direction: "higher" or "lower" is better.

    Example:
        >>> rows = [Kept(0, 2.0, {}), Kept(5, 1.0, {}), Kept(9, 1.0, {})]
        >>> [row.step for row in best_first(rows, "lower")]
        [5, 9, 0]
    """
    sign = -1.0 if direction == "higher" else 1.0
    return sorted(validated, key=lambda row: (sign * row.score, row.step))
