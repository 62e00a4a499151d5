"""Training of heads and encoders on tensors."""

from vision_adapters.training.fit import fit
from vision_adapters.training.gate import Family, Task, gate_recipe
from vision_adapters.training.outcome import Direction, Fit, Kept, Validation, best_first, ensemble_logits
from vision_adapters.training.recipe import Precision, Recipe, Schedule
from vision_adapters.training.schedule import parameter_groups
from vision_adapters.training.step import batch_indices

__all__ = [
    "Direction",
    "Family",
    "Fit",
    "Kept",
    "Precision",
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
