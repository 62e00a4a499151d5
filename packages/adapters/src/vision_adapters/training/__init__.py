"""Training of heads and encoders on tensors."""

from vision_adapters.training.fit import Direction, Fit, Validation, batch_indices, best_of, fit
from vision_adapters.training.recipe import Recipe, Schedule
from vision_adapters.training.schedule import parameter_groups

__all__ = [
    "Direction",
    "Fit",
    "Recipe",
    "Schedule",
    "Validation",
    "batch_indices",
    "best_of",
    "fit",
    "parameter_groups",
]
