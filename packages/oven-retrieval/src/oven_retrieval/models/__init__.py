"""Models that retrieve entities for an image and a question; what is trained needs the extra `torch`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .clip2clip import ZERO_SHOT, Clip2Clip, GridSearch, Weights, concatenated, grid_search, normalise, query_vectors

if TYPE_CHECKING:
    from .contrastive import Entities, Questions, Recipe, Trained, contrastive_loss, seen_unseen, train_dual
    from .dual import Clip2ClipModule, ClipFusion

_TORCH = {
    "Clip2ClipModule": "dual",
    "ClipFusion": "dual",
    "Entities": "contrastive",
    "Questions": "contrastive",
    "Recipe": "contrastive",
    "Trained": "contrastive",
    "contrastive_loss": "contrastive",
    "seen_unseen": "contrastive",
    "train_dual": "contrastive",
}

__all__ = [
    "ZERO_SHOT",
    "Clip2Clip",
    "Clip2ClipModule",
    "ClipFusion",
    "Entities",
    "GridSearch",
    "Questions",
    "Recipe",
    "Trained",
    "Weights",
    "concatenated",
    "contrastive_loss",
    "grid_search",
    "normalise",
    "query_vectors",
    "seen_unseen",
    "train_dual",
]


def __getattr__(name: str) -> Any:
    if name not in _TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f".{_TORCH[name]}", __name__)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "jaxtyping"):
            raise
        raise ImportError(f"{name} needs {error.name}: pip install 'oven-retrieval[torch]'") from error
    return getattr(module, name)
