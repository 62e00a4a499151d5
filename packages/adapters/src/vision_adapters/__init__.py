"""Heads, their language initialisation, honest tuning and training for vision-language encoders.

Names are imported when they are first used: importing the package does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vision_adapters.__about__ import __version__

if TYPE_CHECKING:  # for editors and type checkers; what is public is the list below
    from vision_adapters.classifier import *  # noqa: F403
    from vision_adapters.efficiency import *  # noqa: F403
    from vision_adapters.episodes import *  # noqa: F403
    from vision_adapters.fewshot import *  # noqa: F403
    from vision_adapters.finetune import *  # noqa: F403
    from vision_adapters.folder import *  # noqa: F403
    from vision_adapters.heads import *  # noqa: F403
    from vision_adapters.low_rank import *  # noqa: F403
    from vision_adapters.metrics import *  # noqa: F403
    from vision_adapters.paired import *  # noqa: F403
    from vision_adapters.power import *  # noqa: F403
    from vision_adapters.progress import *  # noqa: F403
    from vision_adapters.rows import *  # noqa: F403
    from vision_adapters.saved import *  # noqa: F403
    from vision_adapters.stems import *  # noqa: F403
    from vision_adapters.training import *  # noqa: F403
    from vision_adapters.tuning import *  # noqa: F403

_HOMES = {
    "HeadClassifier": "classifier",
    "parameter_counts": "efficiency",
    "performance_efficiency": "efficiency",
    "EpisodeHead": "episodes",
    "EpisodeRows": "episodes",
    "PrototypeHead": "episodes",
    "detection_indices": "fewshot",
    "elevater_indices": "fewshot",
    "sample_episode": "fewshot",
    "Classifier": "finetune",
    "choose_weights": "finetune",
    "interpolate": "finetune",
    "preserve_state": "finetune",
    "train_only": "finetune",
    "list_images": "folder",
    "load_split": "folder",
    "AttentiveHead": "heads",
    "ImageTextHead": "heads",
    "InitializedHead": "heads",
    "LinearHead": "heads",
    "ProjectedHead": "heads",
    "RelationalHead": "heads",
    "SegmentationHead": "heads",
    "TemporalHead": "heads",
    "initial_head": "heads",
    "language_head": "heads",
    "prototype_logits": "heads",
    "seeded": "heads",
    "zero_shot_logits": "heads",
    "add_lora": "low_rank",
    "merge_lora": "low_rank",
    "remove_lora": "low_rank",
    "METRICS": "metrics",
    "Metric": "metrics",
    "Score": "metrics",
    "evaluate": "metrics",
    "paired_difference": "metrics",
    "score_outcomes": "metrics",
    "PairedTest": "paired",
    "holm": "paired",
    "paired_test": "paired",
    "Power": "power",
    "power_of_outcomes": "power",
    "samples_needed": "power",
    "Progress": "progress",
    "RowWriter": "rows",
    "Rows": "rows",
    "SampleRows": "rows",
    "StoredRows": "rows",
    "SavedHead": "saved",
    "load_head": "saved",
    "save_head": "saved",
    "PatchEncoder": "stems",
    "PatchStem": "stems",
    "interpolate_positions": "stems",
    "EncoderWithHead": "training",
    "Fit": "training",
    "FrozenFeatures": "training",
    "ProbeInit": "training",
    "Recipe": "training",
    "Scale": "training",
    "Trained": "training",
    "TrainedEncoder": "training",
    "ensemble_logits": "training",
    "fit": "training",
    "fit_head": "training",
    "gate_recipe": "training",
    "wise_ft": "training",
    "CrossValidated": "tuning",
    "HeldOut": "tuning",
    "METHODS": "tuning",
    "Tuned": "tuning",
    "TuningData": "tuning",
    "cross_validate": "tuning",
    "linear_probe": "tuning",
    "select_knowledge": "tuning",
    "tune": "tuning",
    "tune_elevater": "tuning",
    "tuning_data": "tuning",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _HOMES:
        return getattr(import_module(f"vision_adapters.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'vision_adapters' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted(__all__)
