"""Models that retrieve entities for an image and a question; what is trained needs the extra `torch`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from oven_retrieval.models.clip2clip import (
    ZERO_SHOT,
    Clip2Clip,
    GridSearch,
    Weights,
    grid_search,
    normalise,
    query_vectors,
)
from oven_retrieval.models.questions import (
    ImageFolder,
    Question,
    entity_images,
    hold_out,
    known_questions,
    read_questions,
)

if TYPE_CHECKING:
    from oven_retrieval.models.adaptor import PatchAdaptor, PatchAttention, fit_patch_map, pack
    from oven_retrieval.models.contrastive import contrastive_loss, seen_unseen, train_dual
    from oven_retrieval.models.dual import Clip2ClipModule, ClipFusion
    from oven_retrieval.models.recipe import Entities, Questions, Recipe, Trained
    from oven_retrieval.models.run import TrainingOptions, paper_recipe, train_model
    from oven_retrieval.models.towers import Tower
    from oven_retrieval.models.trained import TrainedModel, open_model, read_config, write_predictions

_TORCH = {
    "Clip2ClipModule": "dual",
    "ClipFusion": "dual",
    "Entities": "recipe",
    "PatchAdaptor": "adaptor",
    "PatchAttention": "adaptor",
    "Questions": "recipe",
    "Recipe": "recipe",
    "Trained": "recipe",
    "Tower": "towers",
    "TrainedModel": "trained",
    "TrainingOptions": "run",
    "contrastive_loss": "contrastive",
    "fit_patch_map": "adaptor",
    "open_model": "trained",
    "pack": "adaptor",
    "paper_recipe": "run",
    "read_config": "trained",
    "seen_unseen": "contrastive",
    "train_dual": "contrastive",
    "train_model": "run",
    "write_predictions": "trained",
}

__all__ = [
    "ZERO_SHOT",
    "Clip2Clip",
    "Clip2ClipModule",
    "ClipFusion",
    "Entities",
    "GridSearch",
    "ImageFolder",
    "PatchAdaptor",
    "PatchAttention",
    "Question",
    "Questions",
    "Recipe",
    "Tower",
    "Trained",
    "TrainedModel",
    "TrainingOptions",
    "Weights",
    "contrastive_loss",
    "entity_images",
    "fit_patch_map",
    "grid_search",
    "hold_out",
    "known_questions",
    "normalise",
    "open_model",
    "pack",
    "paper_recipe",
    "query_vectors",
    "read_config",
    "read_questions",
    "seen_unseen",
    "train_dual",
    "train_model",
    "write_predictions",
]


def __getattr__(name: str) -> Any:
    if name not in _TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f".{_TORCH[name]}", __name__)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "jaxtyping", "safetensors"):
            raise
        raise ImportError(f"{name} needs {error.name}: pip install 'oven-retrieval[torch]'") from error
    return getattr(module, name)
