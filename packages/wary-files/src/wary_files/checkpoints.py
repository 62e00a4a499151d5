"""Checkpoints whose weights are not those of the model that they fill: a score would be chance, or another model's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wary_files.errors import DataError
from wary_files.limits import refuse_special

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
        DataError: the checkpoint lacks other weights; the first three are named. Or it has more layers than its
            configuration says, or weights that are no floats and that nothing says how to scale.
    """
    part = f"/{options['subfolder']}" if "subfolder" in options else ""
    model, report = load(source, use_safetensors=True, trust_remote_code=False, output_loading_info=True, **options)
    missing = set(report["missing_keys"])
    weights = dict(model.named_parameters(remove_duplicate=False))
    loaded = {id(weight) for name, weight in weights.items() if name not in missing}
    random = {name for name in missing & weights.keys() if id(weights[name]) not in loaded}
    if absent := sorted(name for name in random if not name.startswith(tuple(optional))):
        more = f" and {len(absent) - _NAMED:,} more" if len(absent) > _NAMED else ""
        named = f"{', '.join(absent[:_NAMED])}{more}"
        raise DataError(f"{source}{part} lacks weights of {type(model).__name__}: {named}; they would be random")
    layers = {_NUMBER.sub(".N", name) for name in weights}
    if unread := sorted(name for name in report["unexpected_keys"] if _NUMBER.sub(".N", name) in layers):
        raise DataError(
            f"{source}{part} has more layers than its configuration says: {', '.join(unread[:_NAMED])} and so on would "
            "be left out"
        )
    if getattr(getattr(model, "config", None), "quantization_config", None) is None:
        for file in sorted(Path(f"{source}{part}").glob("*.safetensors")):
            if _LOADED.fullmatch(file.name):  # others may lie there, such as one made small for another program
                refuse_integers(file, stored_kinds(file))
    return model, random


_NUMBER = re.compile(r"\.\d+")
_LOADED = re.compile(r"(diffusion_pytorch_)?model(-\d+-of-\d+)?\.safetensors")
"""What transformers and diffusers load of a folder, whole or in parts."""


def refuse_integers(source: str | Path, kinds: Mapping[str, str]) -> None:
    """Refuse weights that are no floats: loaders cast them in silence, without the scale that made them integers.

    Args:
        source: the file, for the message.
        kinds: by the tensors' names their types, such as ``torch.int8`` or ``I8``.

    Raises:
        DataError: a weight or a bias is an integer, a truth value or a complex number; shows the first one.

    Example:
        >>> refuse_integers("a.pt", {"fc.weight": "torch.float16", "bn.num_batches_tracked": "torch.int64"})
    """
    for name, kind in kinds.items():
        plain = kind.rpartition(".")[2]
        if name.endswith((".weight", ".bias")) and not plain.startswith(("float", "bfloat", "F", "BF")):
            raise DataError(
                f"{source}: {name} has numbers of type {plain}, expected floats: weights made small for another "
                "program need that program; give the original ones"
            )


def stored_kinds(path: Path) -> dict[str, str]:
    """The tensors' types in a safetensors file, such as ``F32``, by their names; no number is read.

    Raises:
        DataError: the file's beginning is none of safetensors'.
    """
    refuse_special(path)
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(length, path.stat().st_size)))
        return {str(name): str(entry["dtype"]) for name, entry in header.items() if name != "__metadata__"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path} is no safetensors file that can be read: {type(error).__name__}: {error}") from None
