"""Ridge errors of candidates that differ in one column, on tables with gaps: one factorisation for all of them."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from eevee.scorers.objectives import errors_of_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float
    from torch import Tensor

    from eevee.scorers.objectives import Errors
    from eevee.tables.standard import Standardised

PART = 64  # additions to one base that a task takes: enough to forget what the base costs, few enough to share out


class Fits:
    """The fits of every target on some columns of a table with gaps, before anything is left out.

    Args:
        inputs: the columns and a column of ones.
        inverse: for each target, of its penalised normal matrix.
        residual: prediction minus truth, zero where a target is missing.
        leverage: of each row in each target's fit, zero where the target is missing.
    """

    def __init__(
        self,
        inputs: Float[Tensor, "n q"],
        inverse: Float[Tensor, "p q q"],
        residual: Float[Tensor, "n p"],
        leverage: Float[Tensor, "n p"],
    ) -> None:
        self.inputs, self.inverse, self.residual, self.leverage = inputs, inverse, residual, leverage


def shared_bases(candidates: Sequence[tuple[int, ...]]) -> Iterator[tuple[tuple[int, ...], list[tuple[int, int]]]]:
    """Split candidates by what they have in common: a base, and (candidate's number, added column) for each.

    A base has two candidates or more; those that share none are left out.

    Example:
        >>> list(shared_bases([(0, 1), (0, 2), (3, 4)]))
        [((0,), [(0, 1), (1, 2)])]
    """
    members: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
    for number, candidate in enumerate(candidates):
        for i, added in enumerate(candidate):
            members[candidate[:i] + candidate[i + 1 :]].append((number, added))
    taken: set[int] = set()
    for base, every in sorted(members.items(), key=lambda item: -len(item[1])):
        free = [pair for pair in every if pair[0] not in taken]
        if len(free) > 1:
            taken.update(number for number, _ in free)
            yield base, free


def extended_errors(
    data: Standardised,
    fits: Fits,
    base: Sequence[int],
    added: Sequence[int],
    *,
    alpha: float,
    unselected: bool,
) -> Errors:
    r"""Leave-one-model-out squared errors of a base with each of some columns added.

    With $u = A^{-1} X^\top M z$, $\sigma = z^\top M z + \alpha - u^\top X^\top M z$ and $r = z - Xu$, adding the column
    z to a fit with residual e and leverage h gives $e - r\, z^\top e / \sigma$ and $h + r^2 / \sigma$.

    Args:
        data: the standardised table; no groups of two models or more.
        fits: of the base.
        base: its columns.
        added: one column for each candidate.
        alpha: ridge penalty.
        unselected: count only the metrics that the candidate does not contain.

    Numerics: float64, equal to `eevee.scorers.ridge.held_out_residuals` to rounding.

    Source: the inverse of a bordered matrix; textbook linear algebra.
    """
    values = torch.from_numpy(data.values)
    mask = torch.from_numpy(data.mask).to(values.dtype)
    n, p = values.shape
    columns = values[:, list(added)]
    count, width = columns.shape[1], fits.inputs.shape[1]
    cross = (mask.T @ (columns[:, :, None] * fits.inputs[:, None, :]).reshape(n, -1)).reshape(p, count, width)
    back = cross @ fits.inverse
    scale = (mask.T @ columns.square()).add_(alpha).sub_((back * cross).sum(-1)).rsqrt()  # (p, c)
    slope = (fits.residual.T @ columns).mul_(scale).neg_()
    maps = torch.cat([-back, torch.ones(p, count, 1, dtype=values.dtype)], dim=2).mul_(scale[:, :, None])
    maps = maps.permute(1, 2, 0).contiguous()  # (c, q + 1, p)
    room = (1 - fits.leverage).masked_fill_(mask == 0, torch.inf)  # a missing target divides to zero
    varies = torch.from_numpy(data.varies).to(values.dtype)
    tops, shares = values.new_empty(count, n), values.new_empty(count, n)
    rows = torch.cat([fits.inputs, columns[:, :1]], dim=1)
    part, ratio = values.new_empty(n, p), values.new_empty(n, p)
    for i, column in enumerate(added):
        counted = varies
        if unselected:
            counted = varies.clone()
            counted[[*base, column]] = 0.0
        rows[:, -1] = columns[:, i]
        torch.mm(rows, maps[i], out=part)
        torch.addcmul(fits.residual, part, slope[:, i], out=ratio)
        torch.addcmul(room, part, part, value=-1, out=part)
        ratio.div_(part).square_()
        torch.mv(ratio, counted, out=tops[i])
        torch.mv(mask, counted, out=shares[i])
    return errors_of_sums(tops, shares)


def in_threads(tasks: Sequence[Callable[[], None]]) -> None:
    """Run tasks on as many threads as torch has been given, each with one core: shared operations this small lose."""
    threads = min(torch.get_num_threads(), len(tasks))
    with _single():
        if threads < 2:
            for task in tasks:
                task()
            return
        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(_run_single, task) for task in tasks]:
                done.result()


def _run_single(task: Callable[[], None]) -> None:
    torch.set_num_threads(1)
    task()


@contextmanager
def _single() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
