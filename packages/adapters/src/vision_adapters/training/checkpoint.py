"""The file that lets an interrupted training go on to the same bits."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vision_adapters.rows import Rows
from vision_adapters.training.recipe import Recipe
from wary_files.durable import replacing

SAMPLED_ROWS = 64
"""Rows that are looked at where all would be decoded or encoded for it; see `vision_adapters.rows.Rows`."""
_TOGETHER = 1024


def fingerprint(
    inputs: Sequence[Rows], targets: Rows, recipe: Recipe, seed: int, direction: str, module: nn.Module
) -> dict[str, str]:
    """What must be equal for a checkpoint to belong to a call: every row, of costly ones `SAMPLED_ROWS`."""
    count = len(targets)
    rows = torch.linspace(0, count - 1, min(SAMPLED_ROWS, count)).long()
    digest, forms = hashlib.sha256(), []
    for values in (*inputs, targets):
        sampled = values[rows.to(values.device)] if isinstance(values, Tensor) else values[rows]
        if getattr(values, "costly", False):
            _note(digest, sampled)
        else:
            for start in range(0, count, _TOGETHER):
                _note(digest, values[start : start + _TOGETHER])
            _note(digest, getattr(values, "forms", ()))  # rows that are read are the first form of each
        forms.append(f"{sampled.dtype} {(count, *sampled.shape[1:])}" if isinstance(sampled, Tensor) else f"{count}")
    shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in module.state_dict().items())
    return {
        "recipe": repr(sorted(asdict(recipe).items())),
        "seed": str(seed),
        "direction": direction,
        "inputs": ", ".join(forms),
        "data": digest.hexdigest(),
        "module": hashlib.sha256(shapes.encode()).hexdigest(),
        "trained": hashlib.sha256(
            repr([n for n, p in module.named_parameters() if p.requires_grad]).encode()
        ).hexdigest(),
    }


def _note(digest: hashlib._Hash, value: Any) -> None:
    """Add a tensor, or lists and mappings of them (boxes, say), to a digest."""
    if isinstance(value, Tensor):
        digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    elif isinstance(value, Mapping):
        for name in sorted(value):
            digest.update(str(name).encode())
            _note(digest, value[name])
    elif isinstance(value, list | tuple):
        for item in value:
            _note(digest, item)
    else:
        digest.update(repr(value).encode())


def changing_state(module: nn.Module) -> dict[str, Tensor]:
    """Copies of the trainable parameters and of the buffers: what training can change."""
    frozen = {name for name, parameter in module.named_parameters() if not parameter.requires_grad}
    return {name: value.detach().clone() for name, value in module.state_dict().items() if name not in frozen}


def save(path: Path, state: dict[str, Any]) -> None:
    """Write `state` so that a reader finds the old file or the new one, never a part.

    Raises:
        OSError: the disk is full or read-only; names `path`.
    """
    try:
        with replacing(path, alone=True) as partial, partial.open("xb") as file:
            torch.save(state, file)
    except (OSError, RuntimeError) as error:  # torch's writer hides the system's error behind its own
        cause = error if isinstance(error, OSError) else error.__context__
        if isinstance(cause, OSError):
            raise OSError(cause.errno, cause.strerror, str(path)) from error
        raise


def load(path: Path, expected: dict[str, str]) -> dict[str, Any]:
    """Read a checkpoint and see that it belongs to this call; its weights stay in main memory, off the device."""
    if not path.is_file():
        raise ValueError(f"{path} is not a training checkpoint (no file); remove it")
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        stored: dict[str, str] = dict(state["fingerprint"])
    except Exception as error:
        # torch's own words fill a page, and advise to let the file run code
        raise ValueError(f"{path} is not a training checkpoint ({type(error).__name__}); remove it") from error
    differing = [name for name in {**expected, **stored} if stored.get(name) != expected.get(name)]
    if differing:
        raise ValueError(
            f"{path} belongs to another training: {', '.join(differing)} differ "
            f"({'; '.join(f'{name}: {stored.get(name)} there, {expected.get(name)} here' for name in differing)})"
        )
    return state


def require_whole(state: Mapping[str, Any], names: Collection[str], steps: int) -> None:
    """Refuse a state that no training of so many steps writes: its own steps, scores and weights are all there."""
    step, history, weights_kept = state["step"], state["history"], state["kept"]
    if type(step) is not int or not 0 <= step <= steps or int(history[-1][0]) != step:
        raise ValueError(f"step {str(step)[:20]} of {steps}, and not the last that was validated")
    if not weights_kept or not all(0 <= row[0] <= step and math.isfinite(row[1]) for row in weights_kept):
        raise ValueError("no weights were kept, or with a score that is no number")
    if any(weights.keys() != set(names) for weights in (state["module"], *(row[2] for row in weights_kept))):
        raise ValueError("weights are missing, or there are others")
    if not isinstance(state["seconds"], int | float):
        raise ValueError(f"seconds {str(state['seconds'])[:20]}")


@contextmanager
def restoring(path: Path | None) -> Iterator[None]:
    """Say in one line where a checkpoint of this very training holds something else than it wrote."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{path} holds no whole state of a training ({type(error).__name__}: {str(error)[:200]}); remove it"
        ) from error
