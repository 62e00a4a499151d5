"""Checkpoints of transformers and diffusers that lack weights: these would be random, and a score would be chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wary_files.errors import DataError

_NAMED = 3


def whole(
    load: Callable[..., Any], source: str, *, optional: Sequence[str] = (), **options: Any
) -> tuple[Any, set[str]]:
    """Load a model of transformers or diffusers whose checkpoint holds every weight.

    No code that a checkpoint brings is run, and weights are read from safetensors only.

    Args:
        load: a class's ``from_pretrained``.
        source: the folder, or the id on the hub.
        optional: beginnings of the names of weights that may be missing, such as ``pooler.``.
        options: further arguments of ``load``.

    Returns:
        The model, and the optional weights that the checkpoint lacks. Buffers are not missing, nor is a weight that
        another name brings.

    Raises:
        DataError: the checkpoint lacks other weights; the first three are named.
    """
    model, report = load(source, use_safetensors=True, trust_remote_code=False, output_loading_info=True, **options)
    missing = set(report["missing_keys"])
    weights = dict(model.named_parameters(remove_duplicate=False))
    loaded = {id(weight) for name, weight in weights.items() if name not in missing}
    random = {name for name in missing & weights.keys() if id(weights[name]) not in loaded}
    if absent := sorted(name for name in random if not name.startswith(tuple(optional))):
        more = f" and {len(absent) - _NAMED:,} more" if len(absent) > _NAMED else ""
        named = f"{', '.join(absent[:_NAMED])}{more}"
        part = f"/{options['subfolder']}" if "subfolder" in options else ""
        raise DataError(f"{source}{part} lacks weights of {type(model).__name__}: {named}; they would be random")
    return model, random
