"""Detections, and what both heads need of boxes; conversions, overlaps and suppression are torchvision's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor


class Detections(NamedTuple):
    """Detections of some pictures, equally many of each, the best first.

    boxes: centre, width and height as shares of the picture ``[n, q, 4]``.
    scores: in [0, 1] ``[n, q]``.
    labels: class indices ``[n, q]``.

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
    converted: Tensor = _ops().box_convert(boxes.reshape(-1, 4), in_fmt, out_fmt)
    return converted.view(boxes.shape)


def generalized_iou(first: Float[Tensor, "*n 4"], second: Float[Tensor, "*n 4"]) -> Float[Tensor, " *n"]:
    r"""Generalised intersection over union $\mathrm{IoU} - (|C| - |U|) / |C|$, C the box around both, box by box.

    Source: Rezatofighi et al., CVPR 2019. torchvision has it for all pairs of two lists, or as a loss of equal shapes;
    a batch of pictures is broadcast here.
    """
    shared = (
        torch.minimum(first[..., 2:], second[..., 2:]) - torch.maximum(first[..., :2], second[..., :2])
    ).clamp_min(0)
    around = torch.maximum(first[..., 2:], second[..., 2:]) - torch.minimum(first[..., :2], second[..., :2])
    areas = [(boxes[..., 2:] - boxes[..., :2]).clamp_min(0).prod(dim=-1) for boxes in (first, second)]
    intersection, hull = shared.prod(dim=-1), around.prod(dim=-1)
    union = areas[0] + areas[1] - intersection
    hull = hull.clamp_min(1e-9)
    return intersection / union.clamp_min(1e-9) - (hull - union) / hull


def focal_loss(logits: Float[Tensor, "*n"], truth: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    r"""Sigmoid focal loss $-\alpha_t (1 - p_t)^\gamma \log p_t$ with alpha .25 and gamma 2, one value per logit.

    Source: Lin et al., Focal Loss for Dense Object Detection, ICCV 2017. `torchvision.ops.sigmoid_focal_loss`
    multiplies in another order: heads that were trained with this one would end with other last digits.
    """
    chance = logits.sigmoid()
    right = chance * truth + (1 - chance) * (1 - truth)
    weight = 0.25 * truth + (1 - 0.25) * (1 - truth)
    return weight * (1 - right) ** 2.0 * F.binary_cross_entropy_with_logits(logits, truth, reduction="none")


def topk_detections(scores: Float[Tensor, "n p k"], boxes: Float[Tensor, "n p 4"], most: int) -> Detections:
    """The best pairs of a place and a class, at most `most` of each picture.

    Example:
        >>> topk_detections(torch.tensor([[[0.1, 0.9], [0.8, 0.2]]]), torch.zeros(1, 2, 4), 2).labels.tolist()
        [[1, 0]]
    """
    classes = scores.shape[-1]
    value, index = scores.flatten(1).topk(min(most, scores.shape[1] * classes), dim=1)
    position = torch.div(index, classes, rounding_mode="floor")
    return Detections(boxes.gather(1, position[..., None].expand(-1, -1, 4)), value, index % classes)


def suppressed(detections: Detections, overlap: float, most: int) -> Detections:
    """Non-maximum suppression within each class (`torchvision.ops.batched_nms`); places that are lost score 0."""
    pictures = []
    for boxes, scores, labels in zip(*detections, strict=True):
        keep = _ops().batched_nms(box_convert(boxes, "cxcywh", "xyxy"), scores, labels, overlap)[:most]
        missing = min(most, len(scores)) - len(keep)
        pictures.append(
            (
                torch.cat([boxes[keep], boxes[:1].expand(missing, -1)]),
                torch.cat([scores[keep], scores.new_zeros(missing)]),
                torch.cat([labels[keep], labels[:1].expand(missing)]),
            )
        )
    return Detections(*(torch.stack(part) for part in zip(*pictures, strict=True)))


def _ops() -> Any:
    try:
        from torchvision import ops
    except ImportError as error:
        raise ImportError("boxes need torchvision: pip install 'vision-adapters[detection]'") from error
    return ops
