r"""What stands beside the n x n tiles: negative captions, and a frozen teacher's scores.

A negative caption has no image: it takes part in each image's softmax over texts (or gives one more sigmoid), and
in nothing else. A teacher is kept by the Kullback-Leibler divergence from its softmax to the student's, over texts for
each image and over images for each matching text, or by squared differences of dot products. With W the mean of the
teacher's two softmaxes less the identity,

    KL = CLIP's loss of the student - scale <W, I T^T> / n + a constant,

so the student's part is <W T, I>: W is formed once, in tiles, and multiplied into I and T, which is its gradient, too.
Where the teacher is sure of its pairs every part is small, and no digits are lost.
Squared differences need no tile: sum (s - t)^2 = <I'I, T'T> - 2 <I'J, T'U> + <J'J, U'U> for a teacher J, U.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from eqsim.backends.pair_scores import operator
from eqsim.backends.shares import deal
from eqsim.backends.tiles import LOGITS, Plan, tile_statistics
from eqsim.features import without_autocast
from eqsim.residuals import mean_hard_loss

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Float
    from torch import Tensor

    from eqsim.batch import Batch, Teacher


def _blocks(rows: int, columns: int, tile: int, rank: int, world_size: int) -> Iterator[tuple[slice, slice]]:
    """Yield this process's rectangles of a matrix."""
    blocks = [
        (slice(row, min(row + tile, rows)), slice(column, min(column + tile, columns)))
        for row in range(0, rows, tile)
        for column in range(0, columns, tile)
    ]
    sizes = tuple((b.stop - b.start) * (c.stop - c.start) for b, c in blocks)
    yield from (blocks[place] for place in deal(sizes, rank, world_size))


def log_sum_exps(running: Tensor, world_size: int) -> Tensor:
    """Turn running maxima and sums, in turn (2k, n), into log-sum-exps (k, n), over the tiles of all ranks."""
    maxima: Tensor = running[0::2]
    sums: Tensor = running[1::2]
    if world_size > 1:
        local = maxima.clone()
        maxima = local.clone()
        dist.all_reduce(maxima, op=dist.ReduceOp.MAX)
        sums = sums * torch.exp(local - maxima)
        dist.all_reduce(sums)
    lse: Tensor = maxima + sums.log()
    return lse


@operator(
    "teacher_products(Tensor image, Tensor text, Tensor of_image, Tensor of_text, Tensor scale, Tensor row_lse,"
    " Tensor column_lse, int tile, int rank, int world_size) -> (Tensor, Tensor, Tensor)",
    lambda image, text, *_: (torch.empty_like(image), torch.empty_like(text), image.new_empty(1)),
)
def teacher_products(
    image: Tensor,
    text: Tensor,
    of_image: Tensor,
    of_text: Tensor,
    scale: Tensor,
    row_lse: Tensor,
    column_lse: Tensor,
    tile: int,
    rank: int,
    world_size: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return W text, W' image, and the sum of p log p over both of the teacher's softmaxes."""
    n = image.shape[0]
    at_image, at_text, entropy = torch.zeros_like(image), torch.zeros_like(text), image.new_zeros(1)
    for b, c in _blocks(n, text.shape[0], tile, rank, world_size):
        logits = torch.mm(of_image[b], of_text[c].T).mul_(scale)
        along = logits - row_lse[b, None]
        weights = along.exp()
        entropy += (weights * along).sum()
        if c.start < n:
            down = logits[:, : n - c.start] - column_lse[None, c.start : min(c.stop, n)]
            p = down.exp()
            entropy += (p * down).sum()
            weights[:, : n - c.start] += p
        weights.mul_(0.5)
        if b.start == c.start:
            # p - 1 of an image's own text, with its digits where p is nearly 1.
            own = [torch.expm1(log_p.diagonal()) for log_p in (along, down)]
            weights.diagonal()[: len(own[1])] = (own[0][: len(own[1])] + own[1]) / 2
        at_image[b].addmm_(weights, text[c])
        at_text[c].addmm_(weights.T, image[b])
    return at_image, at_text, entropy


class _TeacherCross(torch.autograd.Function):
    """scale <W, I T^T> less half of the teacher's sum of p log p, over the tiles of all ranks."""

    @staticmethod
    def forward(
        ctx: Any, image: Tensor, text: Tensor, scale: Tensor, teacher: Teacher, tile: int, rank: int, world_size: int
    ) -> Tensor:
        shared = tile, rank, world_size
        plan = Plan(True, False, False, False, False, LOGITS, *shared)
        nothing = scale.new_zeros(())
        numbers = plan.numbers()
        running = tile_statistics(*teacher, nothing, nothing, numbers)[0]
        lse = log_sum_exps(running, world_size).unbind(0)
        at_image, at_text, entropy = teacher_products(image, text, *teacher, *lse, *shared)
        along = torch.linalg.vecdot(image, at_image).sum()
        ctx.save_for_backward(at_image, at_text, along, scale)
        ctx.world_size = world_size
        total: Tensor = scale * along - entropy[0] / 2
        if world_size > 1:
            dist.all_reduce(total)
        return total

    @staticmethod
    @without_autocast
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        at_image, at_text, along, scale = ctx.saved_tensors
        grad = grads[0] * ctx.world_size  # each rank has its share; see `eqsim.distributed`
        return grad * scale * at_image, grad * scale * at_text, grad * along, None, None, None, None


def _gram(rows: Tensor) -> Tensor:
    """rows^T rows: of blocks above the diagonal, for those below are the same."""
    d = rows.shape[1]
    size = max(128, -(-d // 4))
    out = rows.new_empty(d, d)
    for start in range(0, d, size):
        block = slice(start, min(start + size, d))
        out[block, start:] = rows[:, block].T @ rows[:, start:]
        out[block.stop :, block] = out[block, block.stop :].T
    return out


class _SquaredDifferences(torch.autograd.Function):
    """sum (image text^T - teacher's)^2 from d x d matrices."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, text: Tensor, of_image: Tensor, of_text: Tensor) -> Tensor:
        own = _gram(image), _gram(text)
        across = image.T @ of_image, text.T @ of_text
        constant = (_gram(of_image) * _gram(of_text)).sum()
        ctx.save_for_backward(image, text, of_image, of_text, *own, *across)
        total: Tensor = (own[0] * own[1]).sum() - 2 * (across[0] * across[1]).sum() + constant
        return total

    @staticmethod
    @without_autocast
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        image, text, of_image, of_text, k, h, c, e = ctx.saved_tensors
        grad_image = torch.mm(image, h).addmm_(of_image, e.T, alpha=-1).mul_(2 * grads[0])
        grad_text = torch.mm(text, k).addmm_(of_text, c.T, alpha=-1).mul_(2 * grads[0])
        return grad_image, grad_text, None, None


def keep_squares(batch: Batch, teacher: Teacher) -> Float[Tensor, ""]:
    """The mean over images and texts of (s - t)^2, dot products s of the student's rows and t of the teacher's."""
    total: Tensor = _SquaredDifferences.apply(batch.image, batch.text, teacher.image, teacher.text)
    return total / float(batch.image.shape[0] * batch.text.shape[0])


def keep_kl(batch: Batch, teacher: Teacher, clip: Float[Tensor, ""], tile: int) -> Float[Tensor, ""]:
    """Half the mean over images of KL(teacher || student) over texts, and half that over images for each text.

    `clip` is CLIP's loss of the student.
    """
    settings = batch.settings
    shared = tile, settings.rank, settings.world_size
    cross: Tensor = _TeacherCross.apply(batch.image, batch.text, batch.scale, teacher, *shared)
    return clip - cross / batch.image.shape[0]


def hard_loss(batch: Batch) -> Float[Tensor, ""]:
    """`eqsim.functional.hard_negative_loss` of a gathered batch: each image against its own negatives alone."""
    n = batch.image.shape[0]
    right: Tensor = torch.linalg.vecdot(batch.image, batch.text[:n])
    if batch.owners is None or len(batch.owners) == 0:
        return right.sum() * 0.0
    wrong = torch.linalg.vecdot(batch.image[batch.owners], batch.text[n:])
    settings = batch.settings
    return mean_hard_loss(right * batch.scale, wrong * batch.scale, batch.owners, settings.focus, settings.smoothing)
