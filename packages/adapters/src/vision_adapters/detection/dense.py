"""A dense head: every place of a fine grid says which class it sees and how far its box reaches."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vision_adapters.detection.boxes import Detections, box_convert, box_operators, topk_detections
from vision_adapters.heads.transformer import Transformer

RADIUS = 1.5
"""Places so many steps from an object's centre learn its box."""
CANDIDATES = 300
PRIOR = 0.02
"""The share of places that a new head calls an object."""


class DenseHead(nn.Module):
    """An FCOS-style head on a grid of patch tokens.

    The tokens pass a small transformer; each then draws `finer` x `finer` places, which two convolutions join. A place
    gives a score of each class, how central it is in its object, and the distances to the four sides of its box.

    Args:
        dim: numbers per token, d.
        classes: k >= 1.
        grid: rows and columns of tokens, row-major.
        finer: places per token along a side.
        width: of the transformer.
        depth: of the transformer.
        heads: of the transformer.

    Example:
        >>> head = DenseHead(12, 3, grid=(4, 4), width=16)
        >>> logits = head(torch.randn(2, 16, 12))
        >>> logits.shape, head.detections(logits, most=5).boxes.shape
        (torch.Size([2, 64, 8]), torch.Size([2, 5, 4]))

    Source:
        Tian et al., FCOS, ICCV 2019: places near an object's centre learn it, of several the smallest; focal loss,
        generalised IoU, centerness. One level, and its fine places drawn from tokens, are ours: a frozen encoder has
        no pyramid.
    """

    def __init__(
        self,
        dim: int,
        classes: int,
        *,
        grid: tuple[int, int],
        finer: int = 2,
        width: int = 128,
        depth: int = 2,
        heads: int = 4,
    ) -> None:
        super().__init__()
        if dim < 1 or classes < 1 or min(grid) < 1 or finer < 1:
            raise ValueError(
                f"dim, classes, grid and finer must be at least 1, got dim={dim}, classes={classes}, grid={grid}, "
                f"finer={finer}"
            )
        self.grid, self.finer, self.classes = grid, finer, classes
        self.enter = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, width))
        self.position = nn.Parameter(torch.randn(1, grid[0] * grid[1], width) * 0.02)
        self.mix = Transformer(width, depth, heads)
        inner = max(8, width // 2)
        self.draw = nn.Linear(width, inner * finer * finer)
        self.join = nn.Sequential(
            nn.Conv2d(inner, inner, 3, padding=1), nn.GELU(),
            nn.Conv2d(inner, inner, 3, padding=1), nn.GELU(),
            nn.Conv2d(inner, classes + 5, 1),
        )  # fmt: skip
        rows, columns = finer * grid[0], finer * grid[1]
        self.step = (1 / columns, 1 / rows)
        down, across = torch.meshgrid((torch.arange(rows) + 0.5) / rows, (torch.arange(columns) + 0.5) / columns,
                                      indexing="ij")  # fmt: skip
        self.register_buffer("places", torch.stack([across, down], dim=-1).view(-1, 2), persistent=False)
        self.places: Tensor
        last = self.join[-1]
        assert isinstance(last, nn.Conv2d)
        assert last.bias is not None
        with torch.no_grad():
            last.bias.zero_()
            last.bias[:classes] = -math.log(1 / PRIOR - 1)
            last.bias[-4:] = 1.0

    def forward(self, tokens: Float[Tensor, "n t d"]) -> Float[Tensor, "n p c"]:
        """For each place, row by row: k class logits, one of centerness, and four distances before `softplus`."""
        (h, w), f = self.grid, self.finer
        if tokens.ndim != 3 or tokens.shape[1] != h * w:
            raise ValueError(
                f"tokens have shape {tuple(tokens.shape)}, expected [n, {h * w}, d] for a grid of {h} x {w}"
            )
        x = self.draw(self.mix(self.enter(tokens) + self.position))
        x = x.view(-1, h, w, x.shape[-1] // (f * f), f, f).permute(0, 3, 1, 4, 2, 5).reshape(len(x), -1, h * f, w * f)
        logits: Tensor = self.join(x).flatten(2).transpose(1, 2)
        return logits

    def boxes(self, logits: Float[Tensor, "n p c"]) -> Float[Tensor, "n p 4"]:
        """Left, top, right and bottom of each place's box, as shares of the image."""
        step = logits.new_tensor(self.step)
        reach = F.softplus(logits[..., -4:]) * 2
        return torch.cat([self.places - reach[..., :2] * step, self.places + reach[..., 2:] * step], dim=-1)

    def detections(self, logits: Float[Tensor, "n p c"], most: int = 100, overlap: float = 0.6) -> Detections:
        """The best boxes of each image; of two of a class that overlap more than `overlap`, the weaker goes."""
        scores = (logits[..., : self.classes].sigmoid() * logits[..., self.classes, None].sigmoid()).sqrt()
        reach = self.boxes(logits).clamp(0, 1)
        boxes = torch.cat([(reach[..., :2] + reach[..., 2:]) / 2, reach[..., 2:] - reach[..., :2]], dim=-1)
        return suppressed(topk_detections(scores, boxes, CANDIDATES), overlap, most)

    def loss(self, logits: Float[Tensor, "n p c"], truth: Float[Tensor, "n m 5"]) -> Float[Tensor, ""]:
        """Focal loss on classes, generalised IoU on boxes, cross-entropy on centerness.

        `truth` has the objects of each image: class index (-1 where there is none), centre, width and height as
        shares.
        """
        if truth.shape[1] == 0:  # a batch without objects
            truth = truth.new_full((len(truth), 1, 5), -1.0)
        owner = self._owners(truth)
        mine = owner >= 0
        chosen = truth.gather(1, owner.clamp_min(0)[..., None].expand(-1, -1, 5))
        target = F.one_hot(chosen[..., 0].long().clamp_min(0), self.classes).to(logits) * mine[..., None]
        count = mine.sum().clamp_min(1)
        classes = focal_loss(logits[..., : self.classes], target).sum() / count
        box = box_convert(chosen[mine][:, 1:], "cxcywh", "xyxy")
        centre = self.places.expand(len(logits), -1, -1)[mine]
        sides = torch.cat([centre - box[:, :2], box[:, 2:] - centre], dim=1).clamp_min(1e-4)
        pairs = sides.view(-1, 2, 2)  # the two sides of an axis: left and right, top and bottom
        central = (pairs.amin(dim=1) / pairs.amax(dim=1)).prod(dim=1).sqrt()
        near = F.binary_cross_entropy_with_logits(logits[..., self.classes][mine], central, reduction="sum") / count
        shape = ((1 - generalized_iou(self.boxes(logits)[mine], box)) * central).sum() / central.sum().clamp_min(1e-6)
        total: Tensor = classes + near + shape if bool(mine.any()) else classes
        return total

    @torch.no_grad()
    def _owners(self, truth: Float[Tensor, "n m 5"]) -> Tensor:
        """The object that each place learns, or -1 ``[n, p]``: of those around whose centre it lies, the smallest."""
        box = box_convert(truth[..., 1:], "cxcywh", "xyxy")
        step = truth.new_tensor(self.step) * RADIUS
        centre, real = truth[..., 1:3], truth[..., 0] >= 0
        cell = self.places[None, :, None]
        inside = ((cell > box[:, None, :, :2]) & (cell < box[:, None, :, 2:])).all(dim=-1)
        near = ((cell - centre[:, None]).abs() < step).all(dim=-1)
        able = inside & near & real[:, None]
        distance = (cell - centre[:, None]).square().sum(dim=-1)
        closest = F.one_hot(distance.argmin(dim=1), able.shape[1]).transpose(1, 2).bool()
        able = able | (closest & (real & ~able.any(dim=1))[:, None])  # one that is smaller than a step
        area = truth[..., 3] * truth[..., 4]
        least, owner = torch.where(able, area[:, None], torch.inf).min(dim=2)
        return torch.where(least.isfinite(), owner, -1)


def generalized_iou(first: Float[Tensor, "*n 4"], second: Float[Tensor, "*n 4"]) -> Float[Tensor, " *n"]:
    r"""Generalised intersection over union $\mathrm{IoU} - (|C| - |U|) / |C|$, C the box around both, box by box.

    Source: Rezatofighi et al., CVPR 2019. torchvision has it for all pairs of two lists, or as a loss of equal shapes;
    a batch of images is broadcast here.
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


def suppressed(detections: Detections, overlap: float, most: int) -> Detections:
    """Non-maximum suppression within each class (`torchvision.ops.batched_nms`); places that are lost score 0."""
    pictures = []
    for boxes, scores, labels in zip(*detections, strict=True):
        keep = box_operators().batched_nms(box_convert(boxes, "cxcywh", "xyxy"), scores, labels, overlap)[:most]
        missing = min(most, len(scores)) - len(keep)
        pictures.append(
            (
                torch.cat([boxes[keep], boxes[:1].expand(missing, -1)]),
                torch.cat([scores[keep], scores.new_zeros(missing)]),
                torch.cat([labels[keep], labels[:1].expand(missing)]),
            )
        )
    return Detections(*(torch.stack(part) for part in zip(*pictures, strict=True)))
