"""Detections of images; conversions of boxes are torchvision's."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Detections(NamedTuple):
    """Detections of some images, equally many of each, the best first: boxes as shares of the image, centres first.

    Example:
        >>> Detections(torch.zeros(1, 2, 4), torch.tensor([[0.9, 0.1]]), torch.tensor([[3, 1]])).labels.tolist()
        [[3, 1]]
    """

    boxes: Float[Tensor, "n q 4"]
    scores: Float[Tensor, "n q"]
    labels: Int[Tensor, "n q"]


def box_convert(boxes: Float[Tensor, "*n 4"], in_fmt: str, out_fmt: str) -> Float[Tensor, "*n 4"]:
    """Boxes in another form; `torchvision.ops.box_convert`, for any leading dimensions.

    Example:
        >>> box_convert(torch.tensor([0.5, 0.5, 0.5, 1.0]), "cxcywh", "xyxy").tolist()
        [0.25, 0.0, 0.75, 1.0]
    """
    converted: Tensor = box_operators().box_convert(boxes.reshape(-1, 4), in_fmt, out_fmt)
    return converted.view(boxes.shape)


def topk_detections(scores: Float[Tensor, "n p k"], boxes: Float[Tensor, "n p 4"], most: int) -> Detections:
    """The best pairs of a place and a class, at most `most` of each image.

    Example:
        >>> topk_detections(torch.tensor([[[0.1, 0.9], [0.8, 0.2]]]), torch.zeros(1, 2, 4), 2).labels.tolist()
        [[1, 0]]
    """
    classes = scores.shape[-1]
    value, index = scores.flatten(1).topk(min(most, scores.shape[1] * classes), dim=1)
    position = torch.div(index, classes, rounding_mode="floor")
    return Detections(boxes.gather(1, position[..., None].expand(-1, -1, 4)), value, index % classes)


def box_operators() -> Any:
    """torchvision's, or an error that names the extra."""
    try:
        from torchvision import ops
    except ImportError as error:
        raise ImportError("boxes need torchvision: pip install 'vision-adapters[detection]'") from error
    return ops
