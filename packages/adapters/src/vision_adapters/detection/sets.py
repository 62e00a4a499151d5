"""A set head: queries ask the tokens, and each gives one box, matched one to one with the objects."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vision_adapters.detection.boxes import Detections, box_convert, focal_loss, generalized_iou, topk_detections
from vision_adapters.heads.transformer import Block

if TYPE_CHECKING:
    from jaxtyping import Float

PRIOR = 0.02
"""The share of queries that a new head calls an object."""


class Weights(NamedTuple):
    """Of a class, an L1 distance and a generalised IoU, in matching and in the loss."""

    classes: float = 2.0
    distance: float = 5.0
    overlap: float = 2.0


class SetHead(nn.Module):
    """A small DETR-style decoder on patch tokens.

    Each query starts at a place of a coarse grid with a learned box. In every block it takes in the token at its box's
    centre, attends to the other queries and to all tokens, and corrects its box; every block's answer is trained, the
    last one counts.

    Args:
        dim: numbers per token, d.
        classes: k >= 1.
        grid: rows and columns of tokens, row-major.
        queries: objects that can be found in a picture, at most.
        width: of the decoder.
        depth: its blocks.
        heads: its attention heads.

    Raises:
        ValueError: sizes that are not positive, or tokens that do not fill the grid.

    Example:
        >>> head = SetHead(12, 3, grid=(4, 4), queries=9, width=16)
        >>> outputs = head(torch.randn(2, 16, 12))
        >>> outputs.shape, head.detections(outputs, most=5).boxes.shape
        (torch.Size([2, 2, 9, 7]), torch.Size([2, 5, 4]))

    Source:
        Carion et al., DETR, ECCV 2020 (queries, bipartite matching, losses of every block); places as queries and
        corrected boxes as in Deformable DETR, Zhu et al., ICLR 2021, with its focal loss.
    """

    def __init__(
        self,
        dim: int,
        classes: int,
        *,
        grid: tuple[int, int],
        queries: int = 36,
        width: int = 128,
        depth: int = 2,
        heads: int = 4,
    ) -> None:
        super().__init__()
        if dim < 1 or classes < 1 or min(grid) < 1 or queries < 1 or depth < 1:
            raise ValueError(
                f"dim, classes, grid, queries and depth must be at least 1, got dim={dim}, classes={classes}, "
                f"grid={grid}, queries={queries}, depth={depth}"
            )
        self.grid, self.classes = grid, classes
        self.enter = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, width))
        self.position = nn.Parameter(torch.randn(1, grid[0] * grid[1], width) * 0.02)
        self.encode = Block(width, heads)
        self.query = nn.Parameter(torch.randn(1, queries, width) * 0.02)
        self.anchor = nn.Parameter(_spread(queries))
        self.where = nn.Linear(4, width)
        self.blocks = nn.ModuleList(_Asking(width, heads) for _ in range(depth))
        self.say = nn.Linear(width, classes)
        self.correct = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 4))
        last = self.correct[-1]
        assert isinstance(last, nn.Linear)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        nn.init.constant_(self.say.bias, -math.log(1 / PRIOR - 1))

    def forward(self, tokens: Float[Tensor, "n t d"]) -> Float[Tensor, "n b q c"]:
        """Of each block and query: k class logits, and a box's centre, width and height before the sigmoid."""
        h, w = self.grid
        if tokens.ndim != 3 or tokens.shape[1] != h * w:
            raise ValueError(
                f"tokens have shape {tuple(tokens.shape)}, expected [n, {h * w}, d] for a grid of {h} x {w}"
            )
        memory = self.encode(self.enter(tokens) + self.position)
        queries = self.query.expand(len(tokens), -1, -1)
        box = self.anchor.expand(len(tokens), -1, -1)
        outputs = []
        for block in self.blocks:
            queries = block(queries + self._sampled(memory, box), self.where(box), memory + self.position)
            box = box + self.correct(queries)
            outputs.append(torch.cat([self.say(queries), box], dim=-1))
            box = box.detach()
        return torch.stack(outputs, dim=1)

    def _sampled(self, memory: Tensor, box: Tensor) -> Tensor:
        """The tokens at the centres of boxes, interpolated bilinearly."""
        rows, columns = self.grid
        field = memory.transpose(1, 2).reshape(len(memory), -1, rows, columns)
        centre = 2 * box[..., :2].sigmoid() - 1
        sampled = F.grid_sample(field, centre[:, None], padding_mode="border", align_corners=False)
        return sampled[:, :, 0].transpose(1, 2)

    def detections(self, outputs: Float[Tensor, "n b q c"], most: int = 100) -> Detections:
        """The best pairs of a query and a class, of the last block; nothing is suppressed."""
        last = outputs[:, -1]
        return topk_detections(last[..., : self.classes].sigmoid(), last[..., self.classes :].sigmoid(), most)

    def loss(self, outputs: Float[Tensor, "n b q c"], truth: Float[Tensor, "n m 5"]) -> Float[Tensor, ""]:
        """The mean of `set_loss` over the blocks.

        Args:
            outputs: of the head.
            truth: objects of each picture: class index (-1 where there is none), centre, width and height as shares.
        """
        by_layer = [
            set_loss(layer[..., : self.classes], layer[..., self.classes :].sigmoid(), truth)
            for layer in outputs.unbind(1)
        ]
        return torch.stack(by_layer).mean()


class _Asking(nn.Module):
    """Queries attend to one another, then to the tokens."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.among = Block(width, heads)
        self.norm, self.heads = nn.LayerNorm(width), heads
        self.ask, self.see, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, queries: Tensor, position: Tensor, memory: Tensor) -> Tensor:
        """Queries that know more."""
        queries = self.among(queries + position)
        (n, q, w), t = queries.shape, memory.shape[1]
        query = self.ask(self.norm(queries) + position).view(n, q, self.heads, -1).transpose(1, 2)
        key, value = self.see(memory).view(n, t, 2, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value)
        queries = queries + self.out(mixed.transpose(1, 2).reshape(n, q, w))
        more: Tensor = self.mlp(self.norm2(queries))
        return queries + more


def set_loss(
    logits: Float[Tensor, "n q k"],
    boxes: Float[Tensor, "n q 4"],
    truth: Float[Tensor, "n m 5"],
    weights: Weights | None = None,
) -> Float[Tensor, ""]:
    """Focal loss of every query, and L1 distance and generalised IoU of those matched with an object.

    Args:
        logits: of each query and class.
        boxes: centre, width and height as shares.
        truth: objects: class index (-1 where there is none), centre, width and height as shares.
        weights: of the three parts; DETR's (2, 5, 2) by default.

    Returns:
        A number: all of it over the number of objects.

    Example:
        >>> truth = torch.tensor([[[0.0, 0.5, 0.5, 0.2, 0.2]]])
        >>> round(float(set_loss(torch.full((1, 1, 1), 20.0), truth[..., 1:], truth)), 4)
        0.0
    """
    weight = weights or Weights()
    picture, query, truth_row = match_sets(logits, boxes, truth, weight)
    target = torch.zeros_like(logits)
    chosen = truth[picture, truth_row]
    target[picture, query, chosen[:, 0].long()] = 1.0
    count = max(1, len(picture))
    total = weight.classes * focal_loss(logits, target).sum() / count
    if len(picture):
        mine = boxes[picture, query]
        distance = (mine - chosen[:, 1:]).abs().sum()
        apart = (1 - generalized_iou(_corners(mine), _corners(chosen[:, 1:]))).sum()
        total = total + (weight.distance * distance + weight.overlap * apart) / count
    return total


@torch.no_grad()
def match_sets(
    logits: Float[Tensor, "n q k"], boxes: Float[Tensor, "n q 4"], truth: Float[Tensor, "n m 5"], weights: Weights
) -> tuple[Tensor, Tensor, Tensor]:
    """The cheapest one-to-one matching of queries and objects, picture by picture.

    Args:
        logits: of each query and class.
        boxes: centre, width and height as shares.
        truth: objects: class index (-1 where there is none), centre, width and height as shares.
        weights: of the three parts of the cost.

    Returns:
        Picture, query and object of each pair.

    Raises:
        ValueError: more objects in a picture than queries; the message says how many.

    Example:
        >>> truth = torch.tensor([[[0.0, 0.8, 0.8, 0.1, 0.1]]])
        >>> boxes = torch.tensor([[[0.2, 0.2, 0.1, 0.1], [0.8, 0.8, 0.1, 0.1]]])
        >>> match_sets(torch.zeros(1, 2, 1), boxes, truth, Weights())[1].tolist()
        [1]
    """
    from scipy.optimize import linear_sum_assignment

    counts = (truth[..., 0] >= 0).sum(dim=1)
    if int(counts.max()) > logits.shape[1]:
        raise ValueError(f"a picture holds {int(counts.max())} objects, but the head has {logits.shape[1]} queries")
    chance = logits.sigmoid()
    yes = 0.25 * (1 - chance) ** 2 * -(chance + 1e-8).log()
    no = 0.75 * chance**2 * -(1 - chance + 1e-8).log()
    label = truth[..., 0].long().clamp_min(0)
    classes = (yes - no).gather(2, label[:, None].expand(-1, logits.shape[1], -1))
    distance = torch.cdist(boxes, truth[..., 1:], p=1)
    apart = -generalized_iou(_corners(boxes)[:, :, None], _corners(truth[..., 1:])[:, None])
    cost = (weights.classes * classes + weights.distance * distance + weights.overlap * apart).double().cpu().numpy()
    rows = []
    for picture, most in enumerate(counts.tolist()):
        real = (truth[picture, :, 0] >= 0).nonzero()[:, 0].cpu().numpy()
        query, truth_row = linear_sum_assignment(cost[picture][:, real]) if most else ((), ())
        rows += [(picture, int(q), int(real[m])) for q, m in zip(query, truth_row, strict=True)]
    matches = torch.tensor(rows, dtype=torch.long, device=logits.device).view(-1, 3)
    return matches[:, 0], matches[:, 1], matches[:, 2]


def _corners(boxes: Tensor) -> Tensor:
    return box_convert(boxes, "cxcywh", "xyxy")


def _spread(queries: int) -> Tensor:
    """Boxes, before the sigmoid, of middling size on a grid ``[1, q, 4]``."""
    side = math.ceil(math.sqrt(queries))
    index = torch.arange(queries)
    places = torch.stack([(index % side + 0.5) / side, (index // side + 0.5) / math.ceil(queries / side)], dim=1)
    sizes = torch.full((queries, 2), 0.25)
    return torch.logit(torch.cat([places, sizes], dim=1))[None]
