"""How a module is trained: numbers only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

Schedule = Literal["plateau", "cosine", "constant"]
Precision = Literal["float32", "bfloat16", "auto"]
Optimiser = Literal["adamw", "sgd"]
PlateauOn = Literal["loss", "validation"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The optimiser, its schedule, and how often to validate.

    Args:
        lr: learning rate, > 0.
        steps: optimiser steps, >= 0 (0 validates the start alone).
        batch_size: samples per step; at most all samples are taken.
        validate_every: steps between validations, >= 1; the start and the end are always validated.
        weight_decay: decoupled decay of matrices and kernels; biases, norms and scalars have none.
        betas: AdamW's.
        eps: AdamW's.
        schedule: "plateau" multiplies the rate by `factor` after `patience` steps without a training loss lower by the
            relative `threshold`; "cosine" falls to 0 after a linear `warmup`; "constant" stays (after the warm-up).
        patience: steps, for "plateau"; validations, where it follows them.
        plateau_on: "loss" follows the training loss; "validation" counts validations without a better score.
        least_lr: the rate that "plateau" does not fall below, >= 0.
        stop: validations without a better score after which the training ends; None trains all steps.
        factor: 0 < factor < 1, for "plateau".
        threshold: relative, >= 0, for "plateau".
        warmup: steps of linear rise, >= 0, for "cosine" and "constant".
        clip_norm: largest norm of the gradient, or None to leave it.
        head_lr_scale: factor of the rate for parameters under the module's `head`, > 0; GATE: 10 in segmentation.
        micro_batches: into how many parts a batch is cut, >= 1; the gradient is that of the whole batch for losses that
            average over samples, at 1/micro_batches of the memory.
        optimiser: "adamw", or "sgd" with momentum, whose decay is part of the gradient and of all parameters.
        momentum: 0 <= momentum < 1, of "sgd".
        precision: of the forward passes: "float32"; "bfloat16" (autocast; weights stay float32); or "auto", bfloat16
            on a GPU that computes in it, float32 elsewhere.

    Raises:
        ValueError: a number out of its range, shown with its name and value.

    Example:
        >>> Recipe(lr=1e-3, steps=100, batch_size=32, validate_every=25).schedule
        'plateau'

    Source:
        Defaults: GATE, section 8.1 (AdamW, weight decay .01, plateau, patience 1000); betas and eps from its code.
    """

    lr: float
    steps: int
    batch_size: int
    validate_every: int
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-6
    schedule: Schedule = "plateau"
    patience: int = 1000
    factor: float = 0.5
    threshold: float = 1e-4
    warmup: int = 0
    clip_norm: float | None = None
    head_lr_scale: float = 1.0
    micro_batches: int = 1
    precision: Precision = "float32"
    optimiser: Optimiser = "adamw"
    momentum: float = 0.9
    plateau_on: PlateauOn = "loss"
    least_lr: float = 0.0
    stop: int | None = None

    def __post_init__(self) -> None:
        """Check every number at the door."""
        at_least = {"steps": 0, "batch_size": 1, "validate_every": 1, "patience": 0, "warmup": 0, "micro_batches": 1}
        for name, least in at_least.items():
            if not hasattr(getattr(self, name), "__index__"):
                raise ValueError(f"{name} is {getattr(self, name)!r:.60}; expected a whole number")
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        for name in ("lr", "eps", "head_lr_scale"):
            if not (getattr(self, name) > 0 and math.isfinite(getattr(self, name))):
                raise ValueError(f"{name} must be positive and finite, got {getattr(self, name)}")
        if self.optimiser not in get_args(Optimiser):
            raise ValueError(f"optimiser must be one of {get_args(Optimiser)}, got {self.optimiser!r}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be at least 0 and below 1, got {self.momentum}")
        if not 0 < self.factor < 1:
            raise ValueError(f"factor must lie between 0 and 1, got {self.factor}")
        if self.plateau_on not in get_args(PlateauOn):
            raise ValueError(f"plateau_on must be one of {get_args(PlateauOn)}, got {self.plateau_on!r}")
        if self.stop is not None and self.stop < 1:
            raise ValueError(f"stop must be at least 1, or None to train all steps, got {self.stop}")
        for name in ("weight_decay", "threshold", "least_lr"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be at least 0 and finite, got {getattr(self, name)}")
        if self.schedule not in get_args(Schedule):
            raise ValueError(f"schedule must be one of {get_args(Schedule)}, got {self.schedule!r}")
        if self.precision not in get_args(Precision):
            raise ValueError(f"precision must be one of {get_args(Precision)}, got {self.precision!r}")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"clip_norm must be positive or None, got {self.clip_norm}")
        if self.schedule == "plateau" and self.warmup:
            raise ValueError(f"warmup={self.warmup} has no effect on the plateau schedule; choose cosine or constant")
