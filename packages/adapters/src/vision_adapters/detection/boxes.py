"""Boxes and how far they overlap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor


def corners(boxes: Float[Tensor, "*n 4"]) -> Float[Tensor, "*n 4"]:
    """From centre, width and height to left, top, right and bottom.

    Example:
        >>> corners(torch.tensor([0.5, 0.5, 0.5, 1.0])).tolist()
        [0.25, 0.0, 0.75, 1.0]
    """
    half = boxes[..., 2:] / 2
    return torch.cat([boxes[..., :2] - half, boxes[..., :2] + half], dim=-1)


def box_iou(one: Float[Tensor, "*n 4"], other: Float[Tensor, "*n 4"]) -> Float[Tensor, " *n"]:
    """Intersection over union of boxes given by their corners, pair by pair (shapes are broadcast).

    Args:
        one: left, top, right, bottom.
        other: likewise.

    Returns:
        Shares in [0, 1]; 0 for boxes without an area.

    Example:
        >>> round(float(box_iou(torch.tensor([0.0, 0.0, 2.0, 2.0]), torch.tensor([1.0, 0.0, 3.0, 2.0]))), 3)
        0.333
    """
    shared, whole, _ = _areas(one, other)
    return shared / whole.clamp_min(1e-9)


def generalized_iou(one: Float[Tensor, "*n 4"], other: Float[Tensor, "*n 4"]) -> Float[Tensor, " *n"]:
    r"""Generalised intersection over union $\mathrm{IoU} - (|C| - |U|) / |C|$, C the box around both.

    Args:
        one: left, top, right, bottom.
        other: likewise; shapes are broadcast.

    Returns:
        Values in (-1, 1], also for boxes that do not touch.

    Example:
        >>> float(generalized_iou(torch.tensor([0.0, 0.0, 1.0, 1.0]), torch.tensor([1.0, 0.0, 2.0, 1.0])))
        0.0

    Source:
        Rezatofighi et al., Generalized Intersection over Union, CVPR 2019.
    """
    shared, whole, around = _areas(one, other)
    around = around.clamp_min(1e-9)
    return shared / whole.clamp_min(1e-9) - (around - whole) / around


def nms(boxes: Float[Tensor, "p 4"], scores: Float[Tensor, " p"], overlap: float) -> Int[Tensor, " kept"]:
    """Non-maximum suppression: a box falls where a better one overlaps it by more than `overlap`.

    Args:
        boxes: left, top, right, bottom.
        scores: of each.
        overlap: intersection over union, in [0, 1].

    Returns:
        Indices of those that stay, the best first; of equal scores the earlier box.

    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.1, 0.0, 2.1, 2.0], [5.0, 5.0, 6.0, 6.0]])
        >>> nms(boxes, torch.tensor([0.8, 0.9, 0.1]), 0.5).tolist()
        [1, 2]
    """
    order = scores.argsort(descending=True, stable=True)
    sorted_boxes = boxes[order]
    above = (box_iou(sorted_boxes[:, None], sorted_boxes[None]) > overlap).cpu().numpy()
    stays = []
    fallen = np.zeros(len(order), dtype=bool)
    for place in range(len(order)):
        if not fallen[place]:
            stays.append(place)
            fallen |= above[place]
    return order[torch.tensor(stays, dtype=torch.long, device=order.device)]


def _areas(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Areas of the intersection, the union, and the box around both."""
    inner = (torch.minimum(one[..., 2:], other[..., 2:]) - torch.maximum(one[..., :2], other[..., :2])).clamp_min(0)
    outer = torch.maximum(one[..., 2:], other[..., 2:]) - torch.minimum(one[..., :2], other[..., :2])
    own, its = ((each[..., 2:] - each[..., :2]).clamp_min(0).prod(dim=-1) for each in (one, other))
    shared = inner.prod(dim=-1)
    return shared, own + its - shared, outer.prod(dim=-1)
