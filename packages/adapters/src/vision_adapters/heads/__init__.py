"""Heads: what turns an encoder's features or tokens into a task's scores."""

from vision_adapters.heads.attentive import AttentiveHead
from vision_adapters.heads.initialisation import Initialisation, InitializedHead, ProjectedHead, initial_head
from vision_adapters.heads.linear import (
    FeatureNorm,
    LinearHead,
    fixed_head,
    global_seed,
    language_head,
    prototype_logits,
    seeded,
    zero_shot_logits,
)
from vision_adapters.heads.segmentation import SegmentationHead
from vision_adapters.heads.sequences import ImageTextHead, RelationalHead, TemporalHead

__all__ = [
    "AttentiveHead",
    "FeatureNorm",
    "ImageTextHead",
    "Initialisation",
    "InitializedHead",
    "LinearHead",
    "ProjectedHead",
    "RelationalHead",
    "SegmentationHead",
    "TemporalHead",
    "fixed_head",
    "global_seed",
    "initial_head",
    "language_head",
    "prototype_logits",
    "seeded",
    "zero_shot_logits",
]
