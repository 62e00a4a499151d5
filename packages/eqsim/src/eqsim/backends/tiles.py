"""The tiled pass: log-sum-exps, EqSim sums and gradients from square tiles of the score matrix and their mirrors.

A tile holds rows b and columns c of the n x n matrix; its mirror holds rows c and columns b. EqSim couples s_ij with
s_ji, so both are formed together as x[i, j] = image_i . text_j and y[i, j] = image_j . text_i, for b <= c only. Texts
beyond the images are negatives: their tiles have no mirror and no residual, and they stand in each image's softmax.
Backward forms the tiles again. The gradient of a tile's scores is put together in place and multiplied into the feature
gradients at once.

These are plain functions on tensors without autograd (`eqsim.backends.tiled` adds it), registered as operators
(`eqsim.backends.pair_scores`).

One file of more than 400 lines: the forward sums and the backward slopes of each term have to agree line by line.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch

from eqsim.backends.pair_scores import operator
from eqsim.backends.shares import deal
from eqsim.residuals import RESIDUALS, beyond_margin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

DOTS, LOGITS, SOFTMAX = 0, 1, 2
"""What a residual is taken of: dot products, dot products times the scale, or the softmax of those over texts."""

TILE = 768
"""On a CPU: the half dozen buffers of a tile then stay in the caches of a core."""

LEAST = 1e-25
"""Of a sum of exponentials: 8,192 of them that underflow (below 1e-38) are a part in a billion of it."""

SPREAD = 60.0
"""Of log-sum-exps that share a shift: a score that is 1e-11 of a row's sum is then still above float32's least."""

LEAST_SCALE = 2.0**-90
"""What stands for a scale of 0 where gradients are formed."""

ACCELERATOR_TILE = 4096
"""Elsewhere: few launches, and half a gigabyte of buffers."""


class Plan(NamedTuple):
    """What a pass computes; a flat tuple of whole numbers, so that it passes through a custom operator.

    This process computes the tiles that `eqsim.backends.shares.deal` gives it; `half` has the kernels multiply in
    bfloat16 (1) or float16 (2); with `store` the dot products stay for the backward pass. The margins are those of each
    pair, and 0 where they are taken off means.
    """

    lse: bool
    sigmoid: bool
    v1: bool
    v2_text: bool
    v2_image: bool
    score: int
    tile: int
    rank: int = 0
    world_size: int = 1
    half: int = 0
    store: int = 0
    margin: float = 0.0
    margin_v1: float = 0.0

    @classmethod
    def of(cls, numbers: Sequence[int]) -> Self:
        """Read a plan back from the numbers that passed through a custom operator."""
        return cls(*map(bool, numbers[:5]), *numbers[5:-2], *struct.unpack("dd", struct.pack("qq", *numbers[-2:])))

    def numbers(self) -> list[int]:
        """Return whole numbers that stand for the plan; those of the margins have their bits."""
        return [*map(int, self[:-2]), *struct.unpack("qq", struct.pack("dd", *self[-2:]))]

    @property
    def terms(self) -> bool:
        """Whether any sum of squared residuals is asked for."""
        return self.v1 or self.v2_text or self.v2_image

    @property
    def summed(self) -> list[tuple[int, str, float]]:
        """Place, name and margin of each residual whose squares are summed; see `eqsim.residuals.RESIDUALS`."""
        margins = (self.margin_v1, self.margin, self.margin)
        return [(place, name, margins[place]) for place, name in enumerate(RESIDUALS) if getattr(self, name)]

    @property
    def share(self) -> tuple[int, int, int]:
        """The side of a tile, and which tiles are this process's."""
        return self.tile, self.rank, self.world_size

    def corners(self, n: int, texts: int) -> list[tuple[slice, slice]]:
        """Rows and columns of this process's tiles, of negatives where they take part."""
        return list(_corners(n, texts, self.lse or self.sigmoid, *self.share))

    def stored(self, n: int, texts: int) -> int:
        """How many dot products stay in memory from the forward to the backward pass."""
        return sum(_area(b, c, n) for b, c in self.corners(n, texts)) if self.store else 0


def _area(b: slice, c: slice, n: int) -> int:
    """How many scores a tile holds with its mirror."""
    return int((1 + (b != c and c.start < n)) * (b.stop - b.start) * (c.stop - c.start))


@lru_cache(maxsize=64)
def _corners(
    n: int, texts: int, with_negatives: bool, tile: int, rank: int, world_size: int
) -> tuple[tuple[slice, slice], ...]:
    blocks = [slice(start, min(start + tile, n)) for start in range(0, n, tile)]
    tiles = [(b, c) for first, b in enumerate(blocks) for c in blocks[first:]]
    if with_negatives:
        side = min(tile, n)
        beyond = [slice(start, min(start + side, texts)) for start in range(n, texts, side)]
        tiles += [(b, c) for b in blocks for c in beyond]
    own = deal(tuple(_area(b, c, n) for b, c in tiles), rank, world_size)
    return tuple(tiles[place] for place in own)


class _Tile(NamedTuple):
    """One tile with its mirror: x[i, j] = L_ij and y[i, j] = L_ji.

    A tile on the diagonal is its own mirror (y is x^T); one of negatives has none (y is x, and is not looked at).
    """

    b: slice
    c: slice
    x: Tensor
    y: Tensor
    on_diagonal: bool
    negatives: bool

    @property
    def halves(self) -> tuple[Tensor, ...]:
        """The tile, and its mirror where it is another."""
        return (self.x,) if self.on_diagonal or self.negatives else (self.x, self.y)

    def weight(self) -> int:
        """How many ordered pairs one element stands for."""
        return 1 if self.on_diagonal else 2


def _tiles(
    image: Tensor, text: Tensor, factor: Tensor | None, plan: Plan, stored: Tensor | None = None, *, fill: bool = False
) -> Iterator[_Tile]:
    """Yield the tiles of this process with their dot products, times `factor` where given.

    Dot products come from `stored` where it holds any; with `fill` they are put there.
    """
    n = image.shape[0]
    buffers = image.new_empty((2, min(plan.tile, n) ** 2))
    at = 0
    for b, c in plan.corners(n, text.shape[0]):
        mirrored = b != c and c.start < n
        shape = (b.stop - b.start, c.stop - c.start)
        size = shape[0] * shape[1]
        scores = []
        for k, (rows, columns) in enumerate(((image, text), (text, image))[: 1 + mirrored]):
            values = buffers[k, :size].view(shape)
            if stored is None or fill or not plan.store:
                torch.mm(rows[b], columns[c].T, out=values)
            if stored is not None and plan.store:
                stored_tile = stored[at : at + size].view(shape)
                stored_tile.copy_(values) if fill else values.copy_(stored_tile)
                at += size
            if factor is not None:
                values.mul_(factor)
            scores.append(values)
        yield _Tile(b, c, scores[0], scores[0].T if b == c else scores[-1], b == c, negatives=c.start >= n)


def nothing_yet(like: Tensor, n: int) -> Tensor:
    """Return running maxima and sums (2, n) of no score at all."""
    running = like.new_zeros((2, n))
    running[0] = float("-inf")
    return running


def absorb(running: Tensor, where: slice, values: Tensor, dim: int, scratch: Tensor) -> None:
    """Fold exp(values), reduced over `dim`, into running maxima and scaled sums (an online log-sum-exp)."""
    top = torch.maximum(running[0, where], values.amax(dim))
    running[1, where] *= torch.exp(running[0, where] - top)
    work = scratch.view(-1)[: values.numel()].view(values.shape)
    torch.sub(values, top.unsqueeze(dim), out=work).exp_()
    running[1, where] += work.sum(dim)
    running[0, where] = top


def _absorb_both(along: Tensor, down: Tensor, tile: _Tile, values: Tensor, factor: Tensor, scratch: Tensor) -> None:
    """Fold exp(factor * values) into both log-sum-exps that a tile belongs to, from one exponential of each score.

    With one shift for the whole tile, its maximum, a row's sum is at least `LEAST` unless that row lies far below the
    others; what underflows in a sum that large is less than float32 shows. Other tiles have a maximum for each row and
    column (`absorb`), and so have all on an accelerator, where the look at the sums would wait for the device.
    """
    if values.device.type == "cpu":
        work = scratch[: values.numel()].view(values.shape)
        top = factor * (values.amax() if factor > 0 else values.amin())
        torch.add(-top, values, alpha=float(factor), out=work).exp_()
        sums = work.sum(1), work.sum(0)
        if min(float(part.min()) for part in sums) > LEAST:
            for running, where, part in ((along, tile.b, sums[0]), (down, tile.c, sums[1])):
                new = torch.maximum(running[0, where], top)
                running[1, where] *= torch.exp(running[0, where] - new)
                running[1, where] += part * torch.exp(top - new)
                running[0, where] = new
            return
    values.mul_(factor)
    absorb(along, tile.b, values, 1, scratch)
    absorb(down, tile.c, values, 0, scratch)


def _active(residual: Tensor, margin: float) -> Tensor:
    """Return the residual where its square exceeds the margin, else 0."""
    return residual if margin == 0 else torch.where(residual.square() > margin, residual, torch.zeros_like(residual))


def _square_sum(residual: Tensor, margin: float = 0.0) -> Tensor:
    """Return the sum of max(residual^2 - margin, 0).

    On a CPU in parts, for one long float32 sum loses a digit on some processors. An accelerator sums as a tree, and a
    thousand parts of a tile would be a thousand launches.
    """
    if margin > 0:
        return beyond_margin(residual, margin).sum()
    if residual.device.type != "cpu":
        total: Tensor = torch.linalg.vector_norm(residual).square()
        return total
    return torch.stack([torch.dot(part, part) for part in torch.split(residual.reshape(-1), 1 << 14)]).sum()


def _add_sums(sums: Tensor, a: Tensor, d: Tensor | None, plan: Plan, weight: int) -> None:
    for place, name, margin in plan.summed:
        sums[place] += weight * _square_sum(RESIDUALS[name](a if d is None else d, a), margin)


def _softplus_sum(values: Tensor) -> Tensor:
    """Return sum log(1 + e^x); logsigmoid keeps every digit where softplus switches to x at 20."""
    return -torch.nn.functional.logsigmoid(-values).sum()


def _differences(matching: Tensor, tile: _Tile, plan: Plan) -> Tensor | None:
    return matching[tile.b, None] - matching[None, tile.c] if plan.v2_text or plan.v2_image else None


STATISTICS_SCHEMA = (
    "(Tensor image, Tensor text, Tensor scale, Tensor bias, Tensor matching, int[] numbers) -> (Tensor, Tensor, Tensor)"
)
SOFTMAX_SCHEMA = (
    "(Tensor image, Tensor text, Tensor scale, Tensor row_lse, Tensor matching, int[] numbers)"
    " -> (Tensor, Tensor, Tensor)"
)
GRADIENTS_SCHEMA = (
    "(Tensor image, Tensor text, Tensor scale, Tensor bias, Tensor matching, Tensor lse, Tensor lse_weights,"
    " Tensor sum_weights, Tensor stored, int[] numbers) -> (Tensor, Tensor, Tensor, Tensor)"
)


def statistics_shapes(image: Tensor, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return empty outputs of `tile_statistics`."""
    n, texts = image.shape[0], arguments[0].shape[0]
    return image.new_empty((4, n)), image.new_empty(4), image.new_empty(Plan.of(arguments[-1]).stored(n, texts))


def softmax_shapes(image: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
    """Return empty outputs of `tile_softmax_sums`."""
    return image.new_empty(4), image.new_empty((3, image.shape[0])), image.new_empty((3, image.shape[0]))


def gradients_shapes(image: Tensor, text: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return empty outputs of `tile_gradients`."""
    return torch.empty_like(image), torch.empty_like(text), image.new_empty(2), image.new_empty(image.shape[0])


@operator(f"tile_statistics{STATISTICS_SCHEMA}", statistics_shapes)
def tile_statistics(
    image: Tensor, text: Tensor, scale: Tensor, bias: Tensor, matching: Tensor, numbers: list[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return running (row max, row sum, column max, column sum) (4, n), (v1, text, image, softplus) sums, and scores.

    The scores are those of `Plan.store`, or none. `matching` is s_ii in units of the score; softmax residuals need the
    log-sum-exps first (`tile_softmax_sums`).
    """
    plan = Plan.of(numbers)
    n = image.shape[0]
    running = torch.cat([nothing_yet(image, n), nothing_yet(image, n)])
    sums = image.new_zeros(4)
    scratch = image.new_empty(min(plan.tile, n) ** 2)
    raw = plan.terms and plan.score != SOFTMAX
    scaled = plan.lse or plan.sigmoid or plan.score == LOGITS
    late_scale = scaled and raw and plan.score == DOTS
    unit, stored = torch.ones_like(scale), image.new_empty(plan.stored(n, text.shape[0]))
    factor = scale if scaled and not late_scale else None
    for tile in _tiles(image, text, factor, plan, stored, fill=True):
        if raw and not tile.negatives:
            difference = torch.sub(tile.x, tile.y, out=scratch[: tile.x.numel()].view(tile.x.shape))
            _add_sums(sums, difference, _differences(matching, tile, plan), plan, tile.weight())
        if late_scale and plan.sigmoid:
            for values in tile.halves:
                values.mul_(scale)
        if plan.lse and tile.negatives:
            if late_scale and not plan.sigmoid:
                tile.x.mul_(scale)
            absorb(running[:2], tile.b, tile.x, 1, scratch)
        elif plan.lse:
            directions = (running[:2], running[2:])
            for values, (along, down) in zip(tile.halves, (directions, directions[::-1]), strict=False):
                _absorb_both(along, down, tile, values, unit if plan.sigmoid or not late_scale else scale, scratch)
        if plan.sigmoid:
            for values in tile.halves:
                sums[3] += _softplus_sum(values + bias)
    return running, sums, stored


def _softmax_tile(tile: _Tile, row_lse: Tensor) -> tuple[Tensor, Tensor]:
    """Return S_ij and S_ji on a tile, S = exp(L - row_lse); for a diagonal tile the second is the first, transposed."""
    s_x = torch.sub(tile.x, row_lse[tile.b, None]).exp_()
    s_y = s_x.T if tile.on_diagonal else torch.sub(tile.y, row_lse[None, tile.c]).exp_()
    return s_x, s_y


@operator(f"tile_softmax_sums{SOFTMAX_SCHEMA}", softmax_shapes)
def tile_softmax_sums(
    image: Tensor, text: Tensor, scale: Tensor, row_lse: Tensor, matching: Tensor, numbers: list[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the sums for softmax scores, and what their gradient needs.

    The softmax couples a row: dL_ij = S_ij (g_ij - rho_i), rho_i = sum_k S_ik g_ik, where g is the gradient of S.
    Both rho and the gradient of S_ii are (3, n), one row for each of v1, text and image at coefficient 1; rho comes
    without the diagonal's part.
    """
    plan = Plan.of(numbers)
    n = image.shape[0]
    sums, rho, diagonal = image.new_zeros(4), image.new_zeros((3, n)), image.new_zeros((3, n))
    for tile in _tiles(image, text[:n], scale, plan):
        s_x, s_y = _softmax_tile(tile, row_lse)
        a, d = s_x - s_y, _differences(matching, tile, plan)
        _add_sums(sums, a, d, plan, tile.weight())
        for term, name, margin in plan.summed:
            residual = _active(RESIDUALS[name](a if d is None else d, a), margin)
            if name != "v1":
                diagonal[term, tile.b] += 4 * residual.sum(1)
                if not tile.on_diagonal:
                    diagonal[term, tile.c] -= 4 * residual.sum(0)
            slope = -residual if name == "v2_text" else residual
            rho[term, tile.b] += 4 * torch.linalg.vecdot(s_x, slope)
            if not tile.on_diagonal:
                rho[term, tile.c] -= 4 * (s_y * slope).sum(0)
    return sums, rho, diagonal


def _slopes(a: Tensor, d: Tensor | None, weights: Tensor, plan: Plan) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of the weighted sums with respect to s_ij (minus that of s_ji) and to d."""
    if d is None:
        # The caller's difference is its own: no copy is needed where nothing else reads it.
        return (_active(a, plan.margin_v1).mul_(4 * weights[0]) if plan.v1 else None), None
    pull = torch.zeros_like(d)
    slope = _active(a, plan.margin_v1) * (4 * weights[0]) if plan.v1 else torch.zeros_like(d)
    for place, name, margin in plan.summed:
        if name != "v1":
            residual = _active(RESIDUALS[name](d, a), margin) * (4 * weights[place])
            slope = slope - residual if name == "v2_text" else slope + residual
            pull += residual
    return slope, pull


def _shares(
    tile: _Tile, scale: Tensor, lse: Tensor, lse_weights: Tensor
) -> tuple[tuple[Tensor, Tensor, Tensor], ...] | None:
    """Return what makes a tile's gradient from one exponential of each score; None where that would lose digits.

    w_i exp(L_ij - r_i) + v_j exp(L_ij - c_j) = exp(L_ij - t) (w_i exp(t - r_i) + v_j exp(t - c_j)) for any t, such as
    the largest of the tile's r and c; no r or c may lie so far below it that its exponential overflows, or that of a
    score that matters underflows. The last two factors come times the scale, for the tile and for its mirror.
    """
    shares = []
    for first, second in ((0, 1), (1, 0)):
        along, down = lse[first, tile.b], lse[second, tile.c]
        top = torch.maximum(along.max(), down.max())
        if not float(top - torch.minimum(along.min(), down.min())) < SPREAD:
            return None
        shares.append(
            (
                top,
                scale * lse_weights[first, tile.b] * torch.exp(top - along),
                scale * lse_weights[second, tile.c] * torch.exp(top - down),
            )
        )
    return tuple(shares)


@operator(f"tile_gradients{GRADIENTS_SCHEMA}", gradients_shapes)
def tile_gradients(
    image: Tensor,
    text: Tensor,
    scale: Tensor,
    bias: Tensor,
    matching: Tensor,
    lse: Tensor,
    lse_weights: Tensor,
    sum_weights: Tensor,
    stored: Tensor,
    numbers: list[int],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of image, text, (scale, bias) and matching, from tiles formed again or `stored`.

    `lse_weights` (2, n) and `sum_weights` (4,) are the incoming gradients; for softmax scores the rows' already hold
    minus rho.
    """
    plan = Plan.of(numbers)
    n = image.shape[0]
    # At scale 0 the scaled tiles would have lost the dot products that the scale's own gradient is made of; a power of
    # two this small keeps their digits and is nothing beside any bias.
    scale = torch.where(scale == 0, torch.full_like(scale, LEAST_SCALE), scale)
    grad_image, grad_text = torch.zeros_like(image), torch.zeros_like(text)
    grad_numbers, grad_matching = image.new_zeros(2), image.new_zeros(n)
    rows, columns = lse.unbind(0)
    row_weights, column_weights = lse_weights.unbind(0)
    scaled = plan.lse or plan.sigmoid or plan.score != DOTS
    quick = plan.lse and not plan.sigmoid and plan.score == DOTS and image.device.type == "cpu"
    work = image.new_empty((4, min(plan.tile, n) ** 2))
    for tile in _tiles(image, text, None, plan, stored):
        shape, size = tile.x.shape, tile.x.numel()
        grad_x, grad_y, spare, difference = (work[k, :size].view(shape) for k in range(4))
        b, c = tile.b, tile.c
        slope = None
        terms = plan.terms and not tile.negatives
        if terms and plan.score == DOTS:
            torch.sub(tile.x, tile.y, out=difference)
            slope, pull = _slopes(difference, _differences(matching, tile, plan), sum_weights, plan)
            _pull_matching(grad_matching, pull, tile)
        shares = _shares(tile, scale, lse, lse_weights) if quick and not tile.negatives else None
        if scaled and shares is None:
            for values in tile.halves:
                values.mul_(scale)
        soft: tuple[Tensor, Tensor] | None = None
        if terms and plan.score == LOGITS:
            slope, pull = _slopes(tile.x - tile.y, _differences(matching, tile, plan), sum_weights, plan)
            _pull_matching(grad_matching, pull, tile)
        elif terms and plan.score == SOFTMAX:
            soft = _softmax_tile(tile, rows)
            slope, _ = _slopes(soft[0] - soft[1], _differences(matching, tile, plan), sum_weights, plan)
        for mirrored, (values, grad) in enumerate(zip(tile.halves, (grad_x, grad_y), strict=False)):
            sign = -1 if mirrored else 1
            if shares is not None:
                top, along, down = shares[mirrored]
                torch.add(-top, values, alpha=float(scale), out=grad).exp_()
                grad.mul_(torch.add(along[:, None], down, out=spare))
                grad_numbers[0] += torch.dot(grad.view(-1), values.reshape(-1))
                if slope is not None:
                    grad.add_(slope, alpha=sign)
                continue
            # In x rows are the tile's rows; in y they are its columns, so the weights swap axes.
            row_at, column_at = ((None, c), (b, None)) if mirrored else ((b, None), (None, c))
            if not plan.lse:
                grad.zero_()
            if soft is not None and slope is not None:
                torch.add(row_weights[row_at], slope, alpha=sign, out=grad)
                grad.mul_(soft[1] if mirrored else soft[0])
            elif plan.lse:
                torch.sub(values, rows[row_at], out=grad).exp_().mul_(row_weights[row_at])
            if plan.lse and not tile.negatives:
                torch.sub(values, columns[column_at], out=spare).exp_()
                grad.addcmul_(spare, column_weights[column_at])
            if plan.sigmoid:
                torch.add(values, bias, out=spare).sigmoid_().mul_(sum_weights[3])
                grad_numbers[1] += spare.sum()
                grad.add_(spare)
            if slope is not None and plan.score == LOGITS:
                grad.add_(slope, alpha=sign)
            if scaled:
                grad_numbers[0] += torch.dot(grad.view(-1), values.reshape(-1))
                grad.mul_(scale)
            if slope is not None and plan.score == DOTS:
                grad.add_(slope, alpha=sign)
        grad_image[b].addmm_(grad_x, text[c])
        grad_text[c].addmm_(grad_x.T, image[b])
        if len(tile.halves) == 2:
            grad_image[c].addmm_(grad_y.T, text[b])
            grad_text[b].addmm_(grad_y, image[c])
    # The tiles held scale * dot where the scale's gradient needs the dot product alone.
    grad_numbers[0] /= scale
    return grad_image, grad_text, grad_numbers, grad_matching


def _pull_matching(grad_matching: Tensor, pull: Tensor | None, tile: _Tile) -> None:
    if pull is None:
        return
    grad_matching[tile.b] += pull.sum(1)
    if not tile.on_diagonal:
        grad_matching[tile.c] -= pull.sum(0)
