"""Training of heads and encoders on tensors."""

from vision_adapters.training.fit import (
    Direction,
    Fit,
    Kept,
    Validation,
    batch_indices,
    best_first,
    ensemble_logits,
    fit,
)
from vision_adapters.training.gate import Family, Task, gate_recipe
from vision_adapters.training.recipe import Recipe, Schedule
from vision_adapters.training.schedule import parameter_groups

__all__ = [
    "Direction",
    "Family",
    "Fit",
    "Kept",
    "Recipe",
    "Schedule",
    "Task",
    "Validation",
    "batch_indices",
    "best_first",
    "ensemble_logits",
    "fit",
    "gate_recipe",
    "parameter_groups",
]
