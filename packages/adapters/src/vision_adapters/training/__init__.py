"""Training of heads and encoders on tensors."""

from vision_adapters.training.backbones import Backbone, EncoderWithHead, FrozenFeatures, TrainedEncoder
from vision_adapters.training.fit import fit
from vision_adapters.training.gate import Family, Task, family_of, gate_recipe
from vision_adapters.training.head import ProbeInit, Trained, fit_head
from vision_adapters.training.outcome import Direction, Fit, Kept, Validation, best_first
from vision_adapters.training.pairs import ChosenRows, DualEncoder, features_of_batch, recall_at_1
from vision_adapters.training.recipe import Precision, Recipe, Schedule
from vision_adapters.training.scale import Scale
from vision_adapters.training.schedule import parameter_groups
from vision_adapters.training.step import batch_indices
from vision_adapters.training.wise_ft import wise_ft

__all__ = [
    "Backbone",
    "ChosenRows",
    "Direction",
    "DualEncoder",
    "EncoderWithHead",
    "Family",
    "Fit",
    "FrozenFeatures",
    "Kept",
    "Precision",
    "ProbeInit",
    "Recipe",
    "Scale",
    "Schedule",
    "Task",
    "Trained",
    "TrainedEncoder",
    "Validation",
    "batch_indices",
    "best_first",
    "family_of",
    "features_of_batch",
    "fit",
    "fit_head",
    "gate_recipe",
    "parameter_groups",
    "recall_at_1",
    "wise_ft",
]
