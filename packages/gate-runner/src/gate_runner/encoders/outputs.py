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


def kept(found: Tensor) -> list[float]:
    """The values of an output that are kept, with six digits.

    Example:
        >>> import torch
        >>> kept(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        [1.0, 2.0, 3.0, 4.0]
    """
    flat = found.detach().reshape(-1).float().cpu()
    step = max(1, math.ceil(len(flat) / SHOWN))
    return [float(f"{value:.6g}") for value in flat[::step].tolist()]


def agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two encoders gave the same on the probes, but for what devices and threads make of a sum.

    Args:
        one: ``"device"`` and, for each thing that the encoder offers, what `kept` kept.
        other: likewise.

    Example:
        >>> agree({"device": "cpu", "image": [1.0, 2.0]}, {"device": "cpu", "image": [1.0, 2.0001]})
        True
        >>> agree({"device": "cpu", "image": [1.0, 2.0]}, {"device": "cpu", "image": [1.0, 2.1]})
        False
    """
    if set(one) != set(other):
        return False
    share = SAME_DEVICE if one.get("device") == other.get("device") else OTHER_DEVICE
    return all(_near(one[name], other[name], share) for name in one if name != "device")


def _near(one: Sequence[float], other: Sequence[float], share: float) -> bool:
    if len(one) != len(other):
        return False
    size = math.sqrt(sum(value * value for value in one) / max(1, len(one)))
    return all(abs(a - b) <= share * size for a, b in zip(one, other, strict=True))
