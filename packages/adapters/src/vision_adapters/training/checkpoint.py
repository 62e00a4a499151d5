"""The file that lets an interrupted training go on to the same bits."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vision_adapters.training.recipe import Recipe

SAMPLED_ROWS = 64


def fingerprint(
    inputs: Sequence[Tensor], targets: Tensor, recipe: Recipe, seed: int, direction: str, module: nn.Module
) -> dict[str, str]:
    """What must be equal for a checkpoint to belong to a call.

    Args:
        inputs: the training inputs; shapes, types and up to 64 evenly spaced rows are hashed.
        targets: hashed whole.
        recipe: every number of it.
        seed: of the data's order.
        direction: of the validation score.
        module: names and shapes of its parameters and buffers.

    Returns:
        A readable value per aspect.
    """
    rows = torch.linspace(0, len(targets) - 1, min(SAMPLED_ROWS, len(targets))).long()
    digest = hashlib.sha256()
    for tensor in (*(each[rows.to(each.device)] for each in inputs), targets):
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in module.state_dict().items())
    return {
        "recipe": repr(sorted(asdict(recipe).items())),
        "seed": str(seed),
        "direction": direction,
        "inputs": ", ".join(f"{each.dtype} {tuple(each.shape)}" for each in (*inputs, targets)),
        "data": digest.hexdigest(),
        "module": hashlib.sha256(shapes.encode()).hexdigest(),
        "trained": hashlib.sha256(
            repr([n for n, p in module.named_parameters() if p.requires_grad]).encode()
        ).hexdigest(),
    }


def changing_state(module: nn.Module) -> dict[str, Tensor]:
    """Copies of the trainable parameters and of the buffers: what training can change.

    Args:
        module: any module.

    Returns:
        Name -> copy, on the module's device; frozen parameters are left out.
    """
    frozen = {name for name, parameter in module.named_parameters() if not parameter.requires_grad}
    return {name: value.detach().clone() for name, value in module.state_dict().items() if name not in frozen}


def save(path: Path, state: dict[str, Any]) -> None:
    """Write `state` so that a reader finds the old file or the new one, never a part.

    Args:
        path: the file; its folder must exist.
        state: tensors, numbers, strings, lists and dicts of them.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load(path: Path, expected: dict[str, str], device: torch.device) -> dict[str, Any]:
    """Read a checkpoint and see that it belongs to this call.

    Args:
        path: what `save` wrote.
        expected: this call's `fingerprint`.
        device: where the tensors go.

    Returns:
        The state.

    Raises:
        ValueError: a file of another call, naming the aspects that differ, or a file that is no checkpoint.
    """
    try:
        state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
        found: dict[str, str] = state["fingerprint"]
    except Exception as error:
        raise ValueError(f"{path} is not a training checkpoint ({type(error).__name__}: {error}); remove it") from error
    differing = [name for name in expected if found.get(name) != expected[name]]
    if differing:
        raise ValueError(
            f"{path} belongs to another training: {', '.join(differing)} differ "
            f"({'; '.join(f'{name}: {found.get(name)} there, {expected[name]} here' for name in differing)})"
        )
    return state
