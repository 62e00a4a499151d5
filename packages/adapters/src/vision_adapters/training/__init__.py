"""Training of heads and encoders on tensors."""

from vision_adapters.training.backbones import Backbone as Backbone
from vision_adapters.training.backbones import EncoderWithHead as EncoderWithHead
from vision_adapters.training.backbones import FrozenFeatures, TrainedEncoder
from vision_adapters.training.context import ContextHead, coop_recipe, fit_context
from vision_adapters.training.few_shot_recipes import clip_lora, two_stage
from vision_adapters.training.fit import fit
from vision_adapters.training.gate import family_of as family_of
from vision_adapters.training.gate import gate_recipe
from vision_adapters.training.head import ProbeInit, fit_head
from vision_adapters.training.outcome import Direction as Direction
from vision_adapters.training.recipe import Recipe
from vision_adapters.training.scale import Scale
from vision_adapters.training.wise_ft import wise_ft

__all__ = [
    "ContextHead", "FrozenFeatures", "ProbeInit", "Recipe", "Scale", "TrainedEncoder", "clip_lora", "coop_recipe",
    "fit", "fit_context", "fit_head", "gate_recipe", "two_stage", "wise_ft",
]  # fmt: skip
