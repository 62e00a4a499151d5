r"""Sums of squared residuals over all pairs of a batch from D x D matrices: no n x n anything, exact.

With P = I + T and M = I - T (rows are samples), a_ij = s_ij - s_ji = (M P^T - P M^T)_ij / 2. Split off the column
means, P = P' + 1 p^T, M = M' + 1 m^T, and let z = M'p - P'm. Then sum_j a_ij = n z_i / 2 and

    A = sum a^2 = (<M'^T M', P'^T P'> - <G, G^T>) / 2 + n |z|^2 / 2,      G = P'^T M',
    D = sum d^2 = 2 n sum (s_ii - mean)^2,        X = sum d a = n sum (s_ii - mean) z_i.

Near convergence I is close to T, so M is small and every term of A is of the order of A itself: writing A as
2<I^T I, T^T T> - 2<C, C^T> instead subtracts two numbers that are larger by a factor |I|^2 / |M|^2. For unit rows
s_ii = 1 - |M_i|^2 / 2 is accurate there, too.

Cost: 14 n D^2 flop for value and gradients. Over W processes: 3 D^2 + 2 D floats are reduced instead of 2 n D gathered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist

from eqsim.backends.tiled import run as run_tiled
from eqsim.batch import Parts
from eqsim.features import inverse_norms, unit_rows_backward, without_autocast
from eqsim.residuals import PairSums, mean_terms

if TYPE_CHECKING:
    from torch import Tensor

    from eqsim.batch import Batch, Size
    from eqsim.settings import Settings


def refuses(settings: Settings, size: Size) -> str | None:
    """Refuse what is not a sum over all pairs of squares of dot products."""
    if settings.score == "softmax":
        return "score='softmax' is not a dot product of the features"
    if settings.pairwise_margin:
        return "margin_mode='pair' needs every single pair"
    if not settings.runs_over_all_pairs(listed=size.listed):
        return f"mode={settings.mode!r} over a list of close pairs has no sum over all pairs"
    return None


def suits(settings: Settings, size: Size) -> str | None:
    """Take large batches without a contrastive loss, which needs every score anyway."""
    if settings.contrast is None and size.n > 2 * size.d:
        return f"raw scores over all pairs and n = {size.n} > 2 d = {2 * size.d}: d x d matrices suffice"
    return None


def run(batch: Batch) -> Parts:
    """Compute a batch; what is listed or contrasted goes through tiles."""
    settings = batch.settings
    unit = settings.score == "cosine"
    scale = None if unit else batch.scale
    own = batch.text[: batch.image.shape[0]]
    sums = gram_pair_sums(batch.image, own, scale, unit=unit, n=batch.size.n, world_size=settings.world_size)
    if settings.contrast is None and not batch.listed and not settings.beside:
        return Parts(None, mean_terms(settings, sums, batch.size.n * (batch.size.n - 1)))
    return run_tiled(batch, all_sums=sums)


class _Rows(NamedTuple):
    """The centred sums and differences of this rank's rows, and what belongs to each row."""

    p_rows: Tensor
    m_rows: Tensor
    p_mean: Tensor
    m_mean: Tensor
    z: Tensor
    matching: Tensor


def _reduce(values: Tensor, world_size: int) -> Tensor:
    if world_size > 1:
        dist.all_reduce(values)
    return values


def _centre(image: Tensor, text: Tensor, unit: bool, n: int, world_size: int) -> _Rows:
    """Return centred P and M, z, and the centred matching scores s_ii of this rank's rows."""
    if unit:
        inverse_image, inverse_text = inverse_norms(image), inverse_norms(text)
        image, text = image * inverse_image, text * inverse_text
    m_rows = image - text
    p_rows = image.add_(text) if unit else image + text
    m_squares = torch.linalg.vector_norm(m_rows, dim=1).square()
    if unit:
        # A row of zeros has no unit vector: its score is 0, not 1 - |M|^2 / 2.
        alive = ((inverse_image > 0).to(m_rows) + (inverse_text > 0).to(m_rows)).squeeze(1)
        matching = (alive - m_squares) / 2
    else:
        matching = (torch.linalg.vector_norm(p_rows, dim=1).square() - m_squares) / 4
    means = _reduce(torch.cat([p_rows.sum(0), m_rows.sum(0), matching.sum().reshape(1)]), world_size) / n
    p_mean, m_mean = means[:-1].chunk(2)
    p_rows -= p_mean
    m_rows -= m_mean
    return _Rows(p_rows, m_rows, p_mean, m_mean, m_rows @ p_mean - p_rows @ m_mean, matching - means[-1])


class _GramSums(torch.autograd.Function):
    """A, D, X of the batch of all ranks; backward recomputes the rows and keeps only D x D matrices between."""

    @staticmethod
    def forward(
        ctx: Any, image: Tensor, text: Tensor, unit: bool, n: int, world_size: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        rows = _centre(image, text, unit, n, world_size)
        d = image.shape[1]
        grams = image.new_empty(3 * d * d + 3)
        k, h, g = grams[:-3].view(3, d, d).unbind(0)
        torch.mm(rows.m_rows.T, rows.m_rows, out=k)
        torch.mm(rows.p_rows.T, rows.p_rows, out=h)
        torch.mm(rows.p_rows.T, rows.m_rows, out=g)
        grams[-3] = rows.z @ rows.z
        grams[-2] = rows.matching @ rows.matching
        grams[-1] = rows.matching @ rows.z
        _reduce(grams, world_size)
        ctx.save_for_backward(image, text, grams)
        ctx.unit, ctx.n, ctx.world_size = unit, n, world_size
        a = ((k * h).sum() - (g * g.T).sum()) / 2 + n / 2 * grams[-3]
        return a, 2 * n * grams[-2], n * grams[-1]

    @staticmethod
    @without_autocast
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        image, text, grams = ctx.saved_tensors
        grad_a, grad_d, grad_x = (grad * ctx.world_size for grad in grads)
        d = image.shape[1]
        n = ctx.n
        k, h, g = grams[:-3].view(3, d, d).unbind(0)
        rows = _centre(image, text, ctx.unit, n, ctx.world_size)
        grad_z = n * (grad_a * rows.z + grad_x * rows.matching)
        grad_matching = n * (4 * grad_d * rows.matching + grad_x * rows.z)
        grad_m = torch.mm(rows.m_rows, h)
        grad_m.addmm_(rows.p_rows, g.T, alpha=-1).mul_(grad_a)
        grad_m.addr_(grad_z, rows.p_mean)
        grad_p = torch.mm(rows.p_rows, k)
        grad_p.addmm_(rows.m_rows, g, alpha=-1).mul_(grad_a)
        grad_p.addr_(grad_z, rows.m_mean, alpha=-1)
        means = _reduce(torch.cat([grad_z @ rows.m_rows, -(grad_z @ rows.p_rows)]), ctx.world_size) / n
        mean_p, mean_m = means.chunk(2)
        # s_ii is a function of the rows before centring: d s_ii = -M_i for unit rows, (P_i, -M_i) / 2 otherwise.
        step = (grad_matching if ctx.unit else grad_matching / 2).unsqueeze(1)
        grad_m.addcmul_(rows.m_rows.add_(rows.m_mean), step, value=-1).add_(mean_m)
        if not ctx.unit:
            grad_p.addcmul_(rows.p_rows.add_(rows.p_mean), step)
        grad_p.add_(mean_p)
        del rows
        grad_text = grad_p - grad_m
        grad_image = grad_p.add_(grad_m)
        if not ctx.unit:
            return grad_image, grad_text, None, None, None
        del grad_m
        grad_image = _through_unit_rows(grad_image, image)
        return grad_image, _through_unit_rows(grad_text, text), None, None, None


def _through_unit_rows(grad: Tensor, values: Tensor) -> Tensor:
    inverse = inverse_norms(values)
    return unit_rows_backward(grad, values * inverse, inverse)


def gram_pair_sums(
    image: Tensor, text: Tensor, scale: Tensor | None, *, unit: bool, n: int, world_size: int
) -> PairSums:
    """Return the sums of `PairSums` over all ordered pairs of the batch of all ranks, of dot products times `scale`.

    Numerics: five n x d matrices at most at a time, three D x D kept for backward.
    """
    a, d, x = _GramSums.apply(image, text, unit, n, world_size)
    if scale is not None:
        a, d, x = a * scale.square(), d * scale.square(), x * scale.square()
    return PairSums(v1=a, v2_text=d + a - 2 * x, v2_image=d + a + 2 * x)
