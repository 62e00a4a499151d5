"""The tiled backends: autograd around passes in torch or as Triton kernels, and the loss from what they return."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from eqsim.backends.beside import (
    hard_loss,
    keep_kl,
    keep_squares,
    log_sum_exps,
)
from eqsim.backends.pair_scores import close_squares, listed_differences, softmax_differences
from eqsim.backends.shares import tile_side
from eqsim.backends.tiles import (
    ACCELERATOR_TILE,
    DOTS,
    LOGITS,
    SOFTMAX,
    TILE,
    Plan,
    tile_gradients,
    tile_softmax_sums,
    tile_statistics,
)
from eqsim.batch import Parts
from eqsim.features import without_autocast
from eqsim.functional import distant_squares
from eqsim.residuals import (
    PairDifferences,
    PairSums,
    beyond_margin,
    mean_pair_loss,
    mean_terms,
    relative_terms,
    squared_sums,
)

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from eqsim.batch import Batch, Size
    from eqsim.residuals import Terms
    from eqsim.settings import Settings

FEW_DISTANT = 4
"""A list of more than this part of all ordered pairs may leave few distant ones, and is itself of the matrix's size."""

SCORE_CODES = {"cosine": DOTS, "logits": LOGITS, "softmax": SOFTMAX}


INSTALLED = importlib.util.find_spec("triton") is not None
"""Asked once: torch.compile cannot trace the question in torch 2.6."""


def suits(settings: Settings, size: Size) -> str | None:
    """Take whatever no other backend took."""
    return f"n = {size.n}: tiles need O(n d) memory, for sums over all pairs and for a contrastive loss alike"


def run(batch: Batch, *, all_sums: PairSums | None = None, triton: bool = False) -> Parts:
    """Compute a batch by tiles that its processes share; see `tiled_parts`."""
    return tiled_parts(batch.gathered(), all_sums=all_sums, triton=triton)


def triton_refuses(settings: Settings, size: Size) -> str | None:
    """Refuse without the triton package, and off a GPU unless Triton interprets."""
    if not INSTALLED:
        return "the triton package is not installed (pip install 'eqsim[triton]')"
    if size.device != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return (
            f"the features are on {size.device!r}, not on 'cuda' (TRITON_INTERPRET=1 runs the kernels slowly on a CPU)"
        )
    return None


def run_triton(batch: Batch) -> Parts:
    """Compute a batch by Triton kernels, which are imported now; one with negatives goes by tiles."""
    return run(batch, triton=True)


class _TiledPass(torch.autograd.Function):
    """Log-sum-exps (2, n) and sums (4,) of the whole batch; each rank computes its share of the tiles, both ways."""

    @staticmethod
    def forward(
        ctx: Any,
        image: Tensor,
        text: Tensor,
        scale: Tensor,
        bias: Tensor,
        matching: Tensor,
        numbers: list[int],
        triton: bool,
    ) -> tuple[Tensor, Tensor]:
        plan = Plan.of(numbers)
        statistics, softmax_sums, _ = _passes(triton)
        running, sums, stored = statistics(image, text, scale, bias, matching, numbers)
        lse = log_sum_exps(running, plan.world_size) if plan.lse else running[:2]
        rho = diagonal = image.new_empty(0)
        if plan.terms and plan.score == SOFTMAX:
            own = torch.exp(matching - lse[0])
            soft, rho, diagonal = softmax_sums(image, text, scale, lse[0].contiguous(), own, numbers)
            sums = torch.cat([soft[:3], sums[3:]])
            if plan.world_size > 1:
                dist.all_reduce(rho)
                dist.all_reduce(diagonal)
            diagonal = diagonal * own
            rho = rho + diagonal
        if plan.world_size > 1:
            dist.all_reduce(sums)
        ctx.save_for_backward(image, text, scale, bias, matching, lse, rho, diagonal, stored)
        ctx.numbers, ctx.triton = numbers, triton
        return lse, sums

    @staticmethod
    @without_autocast
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        image, text, scale, bias, matching, lse, rho, diagonal, stored = ctx.saved_tensors
        plan = Plan.of(ctx.numbers)
        lse_weights, sum_weights = grads[0].contiguous(), grads[1].contiguous()
        own = matching
        soft = plan.terms and plan.score == SOFTMAX
        if soft:
            own = torch.exp(matching - lse[0])
            lse_weights = torch.stack([lse_weights[0] - sum_weights[:3] @ rho, lse_weights[1]])
        grad_image, grad_text, grad_numbers, grad_matching = _passes(ctx.triton)[2](
            image, text, scale, bias, own, lse, lse_weights, sum_weights, stored, ctx.numbers
        )
        # This rank formed its share of the tiles: the gather's backward adds the ranks' parts, and the factor makes the
        # sum follow the convention of eqsim.distributed. The softmax's diagonal part is whole on every rank already.
        share = plan.world_size
        if share > 1:
            grad_image, grad_text, grad_numbers, grad_matching = (
                grad * share for grad in (grad_image, grad_text, grad_numbers, grad_matching)
            )
        if soft:
            grad_matching = sum_weights[:3] @ diagonal
        return grad_image, grad_text, grad_numbers[0], grad_numbers[1], grad_matching, None, None


def _passes(triton: bool) -> tuple[Any, Any, Any]:
    if triton:
        from eqsim.backends.triton_passes import triton_gradients, triton_softmax_sums, triton_statistics

        return triton_statistics, triton_softmax_sums, triton_gradients
    return tile_statistics, tile_softmax_sums, tile_gradients


class _Matching(torch.autograd.Function):
    """Dot products of matching unit rows, and the same less 1 as -|image_i - text_i|^2 / 2.

    What is taken of the latter is differences, in which the 1 falls out, and would take the last digits with it. One
    pass for both, forth and back: autograd's own took a tenth of a second of n x d temporaries at n = 8,192.
    """

    @staticmethod
    def forward(ctx: Any, image: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(image, text)
        apart = image - text
        near = torch.linalg.vecdot(apart, apart)
        # A row of zeros stands for itself: its score is 0, or -1 when 1 is taken off.
        alive = [(torch.linalg.vector_norm(rows, dim=1) > 0.5).to(rows) for rows in (image, text)]
        return torch.linalg.vecdot(image, text), (alive[0] + alive[1] - 2 - near) / 2

    @staticmethod
    @without_autocast
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        image, text = ctx.saved_tensors
        dots, near = grads[0][:, None], grads[1][:, None]
        apart = (image - text).mul_(near)
        return torch.mul(text, dots).sub_(apart), torch.addcmul(apart, image, dots)


def matching_scores(
    image: Float[Tensor, "n d"], text: Float[Tensor, "n d"], *, unit: bool
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """Return image_i . text_i, and what residuals take of it: for unit rows the same less 1, near convergence exact."""
    if not unit:
        dots: Tensor = (image * text).sum(dim=1)
        return dots, dots
    scores: tuple[Tensor, Tensor] = _Matching.apply(image, text)
    return scores


def _plan(batch: Batch, *, everything: bool, split: bool, tile: int) -> Plan:
    """Decide what the pass has to sum; with `split`, v2 comes from sum a^2 and the matching scores alone."""
    settings = batch.settings
    v2 = everything and settings.mode == "v2"
    n, cpu = batch.image.shape[0], batch.image.device.type == "cpu"
    fits = n * n * batch.image.element_size() / settings.world_size <= settings.score_memory
    return Plan(
        lse=settings.contrast == "clip" or settings.score == "softmax" or settings.keeps_kl,
        sigmoid=settings.contrast == "sigmoid",
        v1=everything and (settings.mode != "v2" or split),
        v2_text=v2 and not split and "text" in settings.sides,
        v2_image=v2 and not split and "image" in settings.sides,
        score=SCORE_CODES[settings.score],
        tile=tile,
        rank=settings.rank,
        world_size=settings.world_size,
        half=batch.half,
        store=int(fits and cpu),
        margin=settings.margin_of_pairs("v2_text"),
        # v2 from sum a^2 has no margin (`split`), and v1's is not its business.
        margin_v1=settings.margin_of_pairs("v1") if settings.mode != "v2" else 0.0,
    )


def tiled_parts(
    batch: Batch, *, all_sums: PairSums | None = None, triton: bool = False, tile: int | None = None
) -> Parts:
    """Compute everything in O(n d) memory; `all_sums` are those over all pairs where Gram matrices gave them."""
    settings, pairs = batch.settings, batch.pairs
    image, scale, bias = batch.image, batch.scale, batch.bias
    n = image.shape[0]
    text = batch.text[:n]
    unit = settings.score == "cosine"
    masked = settings.mode == "hybrid" and pairs is not None and FEW_DISTANT * pairs.shape[0] > n * (n - 1)
    everything = settings.runs_over_all_pairs(listed=pairs is not None) and not masked
    # 2 mean d^2 + 2 mean a^2 needs no d_ij; one side alone or a margin does, since (d - a)^2 is then wanted accurately.
    split = settings.margin == 0 and len(settings.sides) == 2
    dots_ii, matching = matching_scores(image, text, unit=unit)
    # The contrastive loss subtracts L_ii from log-sum-exps of products that carry the rows' rounding errors, so it
    # wants the product itself.
    logits_ii = (dots_ii if settings.contrast or settings.keeps_kl else matching) * scale
    by_tiles = everything and all_sums is None
    size = tile or tile_side(n, settings.world_size, TILE if image.device.type == "cpu" else ACCELERATOR_TILE)
    plan = _plan(batch, everything=by_tiles, split=split, tile=size)
    lse: Tensor | None = None
    sums: Tensor | None = None
    if plan.lse or plan.sigmoid or plan.terms:
        own = matching if unit else logits_ii
        offset = scale.new_zeros(()) if bias is None else bias
        numbers = plan.numbers()
        kernels = triton and batch.text.shape[0] == n and not settings.pairwise_margin
        lse, sums = _TiledPass.apply(image, batch.text, scale, offset, own, numbers, kernels)
    clip = None if lse is None or not plan.lse else (lse.sum() / 2 - logits_ii.sum()) / n
    contrastive = clip if settings.contrast == "clip" else None
    if settings.contrast == "sigmoid" and sums is not None:
        contrastive = (sums[3] - logits_ii.sum()) / n - (0.0 if bias is None else bias)
    keep = None
    if batch.teacher is not None:
        divergence = None if clip is None or not settings.keeps_kl else keep_kl(batch, batch.teacher, clip, size)
        keep = keep_squares(batch, batch.teacher) if divergence is None else divergence
    hard = hard_loss(batch) if settings.hard_weight > 0 else None
    scores_ii = matching if unit else logits_ii
    if settings.score == "softmax" and lse is not None:
        scores_ii = torch.exp(logits_ii - lse[0])

    if by_tiles and sums is not None:
        all_sums = PairSums(*sums[:3].unbind(0))
        if split and settings.mode == "v2":
            total = all_sums.v1 + 2 * n * (scores_ii - scores_ii.mean()).square().sum()
            all_sums = PairSums(all_sums.v1, total, total)
    if pairs is None:
        zero = image.sum() * 0.0
        terms = mean_terms(settings, all_sums or PairSums(zero, zero, zero), n * (n - 1))
        return Parts(contrastive, terms, None, hard, keep)
    dots = listed_differences(image, text, matching, pairs, unit=unit)
    logits = PairDifferences(*(values * scale for values in dots))
    scores = dots if unit else logits
    if settings.score == "softmax" and lse is not None:
        scores = softmax_differences(logits, logits_ii, lse[0], pairs)
    pair = mean_pair_loss(logits) if settings.pair_weight > 0 else None
    distant = None
    if masked:
        distant = distant_squares(settings, _all_scores(batch, None if lse is None else lse[0]), pairs)
    return Parts(contrastive, _listed_terms(settings, scores, pairs, n, all_sums, distant), pair, hard, keep)


def _all_scores(batch: Batch, row_lse: Tensor | None) -> Float[Tensor, "n n"]:
    """Return the score matrix of a gathered batch, for a list of pairs that is of its size."""
    settings, n = batch.settings, batch.image.shape[0]
    dots = batch.image @ batch.text[:n].mT
    if settings.score == "cosine":
        return dots
    logits = dots * batch.scale
    return torch.exp(logits - row_lse[:, None]) if settings.score == "softmax" and row_lse is not None else logits


def _listed_terms(
    settings: Settings,
    scores: PairDifferences,
    pairs: Tensor,
    n: int,
    all_sums: PairSums | None,
    distant: tuple[Tensor, Tensor | int] | None,
) -> Terms:
    """Return the terms of close pairs, and in the hybrid of all others.

    The distant sum is the sum over all pairs less that over the close ones, unless it is given: of few distant pairs
    the difference would be rounding errors.
    """
    if settings.mode == "relative":
        return relative_terms(settings, scores)
    if settings.mode == "hybrid" and all_sums is not None and distant is None:
        close, number = close_squares(beyond_margin(scores.a, settings.margin_of_pairs("v1")), pairs, n)
        distant = all_sums.v1 - close, settings.distant_divisor(n, n * (n - 1) - number)
    return mean_terms(settings, squared_sums(settings, scores.d, scores.a), pairs.shape[0], distant)
