"""Heads, their language initialisation, honest tuning and training for vision-language encoders.

Names are imported when they are first used: importing the package does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vision_adapters.__about__ import __version__

if TYPE_CHECKING:
    from vision_adapters.classifier import HeadClassifier
    from vision_adapters.efficiency import parameter_counts, performance_efficiency
    from vision_adapters.fewshot import detection_indices, elevater_indices, sample_episode
    from vision_adapters.finetune import Classifier, interpolate, train_only
    from vision_adapters.folder import list_images, load_split
    from vision_adapters.heads import (
        ImageTextHead,
        LinearHead,
        ProjectedHead,
        RelationalHead,
        SegmentationHead,
        TemporalHead,
        initial_head,
        language_head,
        prototype_logits,
        seeded,
        zero_shot_logits,
    )
    from vision_adapters.low_rank import add_lora, merge_lora, remove_lora
    from vision_adapters.metrics import METRICS, Metric, Score, evaluate, paired_difference, score_outcomes
    from vision_adapters.progress import Progress
    from vision_adapters.rows import Rows, RowWriter, SampleRows, StoredRows
    from vision_adapters.stems import PatchEncoder, PatchStem, interpolate_positions
    from vision_adapters.training import Fit, Recipe, ensemble_logits, fit, gate_recipe
    from vision_adapters.tuning import (
        METHODS,
        HeldOut,
        Tuned,
        TuningData,
        select_knowledge,
        tune,
        tune_elevater,
        tuning_data,
    )

_LAZY = {
    "Classifier": "vision_adapters.finetune",
    "Fit": "vision_adapters.training",
    "HeadClassifier": "vision_adapters.classifier",
    "HeldOut": "vision_adapters.tuning",
    "ImageTextHead": "vision_adapters.heads",
    "LinearHead": "vision_adapters.heads",
    "METHODS": "vision_adapters.tuning",
    "METRICS": "vision_adapters.metrics",
    "Metric": "vision_adapters.metrics",
    "PatchEncoder": "vision_adapters.stems",
    "PatchStem": "vision_adapters.stems",
    "Progress": "vision_adapters.progress",
    "ProjectedHead": "vision_adapters.heads",
    "Recipe": "vision_adapters.training",
    "RelationalHead": "vision_adapters.heads",
    "RowWriter": "vision_adapters.rows",
    "Rows": "vision_adapters.rows",
    "SampleRows": "vision_adapters.rows",
    "Score": "vision_adapters.metrics",
    "SegmentationHead": "vision_adapters.heads",
    "StoredRows": "vision_adapters.rows",
    "TemporalHead": "vision_adapters.heads",
    "Tuned": "vision_adapters.tuning",
    "TuningData": "vision_adapters.tuning",
    "add_lora": "vision_adapters.low_rank",
    "detection_indices": "vision_adapters.fewshot",
    "elevater_indices": "vision_adapters.fewshot",
    "ensemble_logits": "vision_adapters.training",
    "evaluate": "vision_adapters.metrics",
    "fit": "vision_adapters.training",
    "gate_recipe": "vision_adapters.training",
    "initial_head": "vision_adapters.heads",
    "interpolate": "vision_adapters.finetune",
    "interpolate_positions": "vision_adapters.stems",
    "language_head": "vision_adapters.heads",
    "list_images": "vision_adapters.folder",
    "load_split": "vision_adapters.folder",
    "merge_lora": "vision_adapters.low_rank",
    "paired_difference": "vision_adapters.metrics",
    "parameter_counts": "vision_adapters.efficiency",
    "performance_efficiency": "vision_adapters.efficiency",
    "prototype_logits": "vision_adapters.heads",
    "remove_lora": "vision_adapters.low_rank",
    "sample_episode": "vision_adapters.fewshot",
    "score_outcomes": "vision_adapters.metrics",
    "seeded": "vision_adapters.heads",
    "select_knowledge": "vision_adapters.tuning",
    "train_only": "vision_adapters.finetune",
    "tune": "vision_adapters.tuning",
    "tune_elevater": "vision_adapters.tuning",
    "tuning_data": "vision_adapters.tuning",
    "zero_shot_logits": "vision_adapters.heads",
}

__all__ = [
    "METHODS",
    "METRICS",
    "Classifier",
    "Fit",
    "HeadClassifier",
    "HeldOut",
    "ImageTextHead",
    "LinearHead",
    "Metric",
    "PatchEncoder",
    "PatchStem",
    "Progress",
    "ProjectedHead",
    "Recipe",
    "RelationalHead",
    "RowWriter",
    "Rows",
    "SampleRows",
    "Score",
    "SegmentationHead",
    "StoredRows",
    "TemporalHead",
    "Tuned",
    "TuningData",
    "__version__",
    "add_lora",
    "detection_indices",
    "elevater_indices",
    "ensemble_logits",
    "evaluate",
    "fit",
    "gate_recipe",
    "initial_head",
    "interpolate",
    "interpolate_positions",
    "language_head",
    "list_images",
    "load_split",
    "merge_lora",
    "paired_difference",
    "parameter_counts",
    "performance_efficiency",
    "prototype_logits",
    "remove_lora",
    "sample_episode",
    "score_outcomes",
    "seeded",
    "select_knowledge",
    "train_only",
    "tune",
    "tune_elevater",
    "tuning_data",
    "zero_shot_logits",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'vision_adapters' has no attribute {name!r}")
