"""Training of heads and encoders on tensors."""

from vision_adapters.training.backbones import Backbone, EncoderWithHead, FrozenFeatures, TrainedEncoder
from vision_adapters.training.fit import fit
from vision_adapters.training.gate import family_of, gate_recipe
from vision_adapters.training.head import ProbeInit, fit_head
from vision_adapters.training.outcome import Direction
from vision_adapters.training.pairs import ChosenRows, DualEncoder, features_of_batch, recall_at_1
from vision_adapters.training.recipe import Recipe
from vision_adapters.training.scale import Scale
from vision_adapters.training.wise_ft import wise_ft

__all__ = [
    "Backbone", "ChosenRows", "Direction", "DualEncoder", "EncoderWithHead", "FrozenFeatures", "ProbeInit", "Recipe",
    "Scale", "TrainedEncoder", "family_of", "features_of_batch", "fit", "fit_head", "gate_recipe", "recall_at_1",
    "wise_ft",
]  # fmt: skip
