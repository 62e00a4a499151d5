"""What an encoder gives on fixed probes, as a run folder keeps it: other code or other weights give other values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

SHOWN = 64
"""Values that are kept of each output, from places evenly spread over it."""
SAME_DEVICE, OTHER_DEVICE = 1e-3, 2e-2
"""Differences, as shares of the values' root mean square, that threads make, and that another kind of device makes."""


def kept(output: Tensor) -> list[float]:
    """The values of an output that are kept, with six digits.

    Example:
        >>> import torch
        >>> kept(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        [1.0, 2.0, 3.0, 4.0]
    """
    flat = output.detach().reshape(-1).float().cpu()
    step = max(1, math.ceil(len(flat) / SHOWN))
    return [float(f"{value:.6g}") for value in flat[::step].tolist()]


def agree(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether two encoders gave the same on the probes, but for what devices and threads make of a sum.

    Args:
        first: ``"device"`` and, for each thing that the encoder offers, what `kept` kept.
        second: likewise.

    Example:
        >>> agree({"device": "cpu", "image": [1.0, 2.0]}, {"device": "cpu", "image": [1.0, 2.0001]})
        True
        >>> agree({"device": "cpu", "image": [1.0, 2.0]}, {"device": "cpu", "image": [1.0, 2.1]})
        False
    """
    if set(first) != set(second):
        return False
    share = SAME_DEVICE if first.get("device") == second.get("device") else OTHER_DEVICE
    return all(_near(first[name], second[name], share) for name in first if name != "device")


def _near(first: Sequence[float], second: Sequence[float], share: float) -> bool:
    if len(first) != len(second):
        return False
    size = math.sqrt(sum(value * value for value in first) / max(1, len(first)))
    return all(abs(a - b) <= share * size for a, b in zip(first, second, strict=True))
