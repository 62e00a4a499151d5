"""What a detection head finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from vision_adapters.detection.boxes import corners, nms

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor


class Found(NamedTuple):
    """Detections of some pictures, equally many of each, the best first.

    boxes: centre, width and height as shares of the picture ``[n, q, 4]``.
    scores: in [0, 1] ``[n, q]``.
    labels: class indices ``[n, q]``.

    Example:
        >>> Found(torch.zeros(1, 2, 4), torch.tensor([[0.9, 0.1]]), torch.tensor([[3, 1]])).labels.tolist()
        [[3, 1]]
    """

    boxes: Float[Tensor, "n q 4"]
    scores: Float[Tensor, "n q"]
    labels: Int[Tensor, "n q"]


def best_of(scores: Float[Tensor, "n p k"], boxes: Float[Tensor, "n p 4"], most: int) -> Found:
    """The best pairs of a place and a class.

    Example:
        >>> best_of(torch.tensor([[[0.1, 0.9], [0.8, 0.2]]]), torch.zeros(1, 2, 4), 2).labels.tolist()
        [[1, 0]]
    """
    classes = scores.shape[-1]
    value, index = scores.flatten(1).topk(min(most, scores.shape[1] * classes), dim=1)
    place = torch.div(index, classes, rounding_mode="floor")
    return Found(boxes.gather(1, place[..., None].expand(-1, -1, 4)), value, index % classes)


def without_doubles(found: Found, overlap: float, most: int) -> Found:
    """Non-maximum suppression within each class; places that are lost have the score 0."""
    kept = []
    for boxes, scores, labels in zip(*found, strict=True):
        keep = nms(corners(boxes) + 4.0 * labels[:, None], scores, overlap)[:most]
        missing = min(most, found.scores.shape[1]) - len(keep)
        kept.append(
            (
                torch.cat([boxes[keep], boxes[:1].expand(missing, -1)]),
                torch.cat([scores[keep], scores.new_zeros(missing)]),
                torch.cat([labels[keep], labels[:1].expand(missing)]),
            )
        )
    return Found(*(torch.stack([one[place] for one in kept]) for place in range(3)))
