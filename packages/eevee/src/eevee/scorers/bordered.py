"""Ridge errors of candidates that differ in one benchmark, on tables with gaps: one factorisation for all of them."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import torch

from eevee.scorers.scorer import errors_of_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from jaxtyping import Float, Int
    from torch import Tensor

    from eevee.tables.standard import Standardised

PART = 64  # additions to one base that a task takes: enough to forget what the base costs, few enough to share out


class Twins(NamedTuple):
    """The groups of one size, in the fits of every target."""

    members: Int[Tensor, "g m"]
    inverse: Float[Tensor, "p g m m"]


class Fits(NamedTuple):
    """The fits of every target on some columns of a table with gaps, before anything is left out."""

    inputs: Float[Tensor, "n q"]
    inverse: Float[Tensor, "p q q"]
    residual: Float[Tensor, "n p"]
    leverage: Float[Tensor, "n p"]
    twins: Sequence[Twins] = ()


def twins_of(data: Standardised, inputs: Float[Tensor, "n q"], inverse: Float[Tensor, "p q q"]) -> list[Twins]:
    """The groups of a table by their size, with what leaving one out needs of the fits of every target."""
    by_size: dict[int, list[Tensor]] = defaultdict(list)
    for group in data.twins:
        by_size[len(group)].append(torch.from_numpy(group))
    mask = torch.from_numpy(data.measured)
    twins = []
    for size, groups in by_size.items():
        members = torch.stack(groups)
        rows, measured = inputs[members], mask[members].permute(2, 0, 1)  # (g, m, q), (p, g, m)
        hat = (rows @ inverse[:, None]) @ rows.mT * measured[..., :, None] * measured[..., None, :]
        twins.append(Twins(members, torch.linalg.inv(torch.eye(size, dtype=inputs.dtype) - hat)))
    return twins


def shared_bases(candidates: Sequence[tuple[int, ...]]) -> Iterator[tuple[tuple[int, ...], list[tuple[int, int]]]]:
    """Split candidates by what they have in common: a base, and (candidate's number, added benchmark) for each.

    A base has two candidates or more; those that share none are left out.
    """
    members: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
    for number, candidate in enumerate(candidates):
        for i, added in enumerate(candidate):
            members[candidate[:i] + candidate[i + 1 :]].append((number, added))
    placed: set[int] = set()
    for base, every in sorted(members.items(), key=lambda item: -len(item[1])):
        free = [pair for pair in every if pair[0] not in placed]
        if len(free) > 1:
            placed.update(number for number, _ in free)
            yield base, free


def extended_errors(
    data: Standardised,
    fits: Fits,
    base: Sequence[int],
    added: Sequence[Sequence[int]],
    *,
    alpha: float,
    unselected: bool,
) -> Float[np.ndarray, "c 2"]:
    r"""Leave-one-model-out squared errors of a base with each of some sets of columns added.

    With $U = A^{-1} X^\top M Z$, $S = Z^\top M Z + \alpha I - U^\top X^\top M Z = L L^\top$ and
    $W = (Z - XU) L^{-\top}$, adding the columns Z to a fit with residual e and hat matrix H gives
    $e - W L^{-1} Z^\top e$ and $H + W W^\top$.

    Numerics: float64, equal to `eevee.scorers.ridge.held_out_residuals` to rounding.

    Source: the inverse of a bordered matrix, and for groups Woodbury's; textbook linear algebra.
    """
    values = torch.from_numpy(data.values)
    mask = torch.from_numpy(data.measured)
    n, p = values.shape
    index = torch.tensor([list(columns) for columns in added])
    count, m = index.shape
    columns = values[:, index]  # (n, c, m)
    width = fits.inputs.shape[1]
    flat = columns.reshape(n, -1)
    cross = (mask.T @ (flat[:, :, None] * fits.inputs[:, None, :]).reshape(n, -1)).reshape(p, count, m, width)
    back = cross @ fits.inverse[:, None]
    own = (mask.T @ (columns[:, :, :, None] * columns[:, :, None, :]).reshape(n, -1)).reshape(p, count, m, m)
    own.diagonal(dim1=2, dim2=3).add_(alpha)
    root = _inverse_root(own - back @ cross.mT)  # (p, c, m, m), below the diagonal
    slope = -(root @ (fits.residual.T @ flat).reshape(p, count, m, 1))[..., 0]
    maps = root @ torch.cat([-back, torch.eye(m, dtype=values.dtype).expand(p, count, m, m)], dim=3)
    maps = maps.permute(1, 2, 3, 0).contiguous()  # (c, m, q + m, p)
    room = (1 - fits.leverage).masked_fill_(mask == 0, torch.inf)  # a missing target divides to zero
    varies = torch.from_numpy(data.varies).to(values.dtype)
    tops, shares = values.new_empty(count, n), values.new_empty(count, n)
    measured = [mask[twins.members] for twins in fits.twins]
    rows = torch.cat([fits.inputs, columns[:, 0]], dim=1)
    parts, off, share = values.new_empty(m, n, p), values.new_empty(n, p), values.new_empty(n, p)
    for i, chosen in enumerate(added):
        counted = varies
        if unselected:
            counted = varies.clone()
            counted[[*base, *chosen]] = 0.0
        rows[:, width:] = columns[:, i]
        for k in range(m):
            torch.mm(rows, maps[i, k], out=parts[k])
            torch.addcmul(off if k else fits.residual, parts[k], slope[:, i, k], out=off)
            torch.addcmul(share if k else room, parts[k], parts[k], value=-1, out=share)
        for twins, present in zip(fits.twins, measured, strict=True):
            off[twins.members] = _without_groups(twins, off[twins.members] * present, parts[:, twins.members] * present)
            share[twins.members] = 1.0
        off.div_(share).square_()
        torch.mv(off, counted, out=tops[i])
        torch.mv(mask, counted, out=shares[i])
    return errors_of_sums(tops, shares)


def _without_groups(
    twins: Twins, off: Float[Tensor, "g m p"], parts: Float[Tensor, "k g m p"]
) -> Float[Tensor, "g m p"]:
    """Residuals of groups from the fits without them, given what added columns change."""
    right = torch.cat([off[None], parts]).permute(3, 1, 2, 0)  # (p, g, m, 1 + k)
    solved = twins.inverse @ right
    inner = parts.permute(3, 1, 0, 2) @ solved  # (p, g, k, 1 + k)
    if len(parts) == 1:
        weight = inner[..., :1] / (1 - inner[..., 1:])
    else:
        eye = torch.eye(len(parts), dtype=off.dtype)
        weight = torch.linalg.solve(eye - inner[..., 1:], inner[..., :1])
    return (solved[..., :1] + solved[..., 1:] @ weight)[..., 0].permute(1, 2, 0)


def _inverse_root(matrix: Float[Tensor, "p c m m"]) -> Float[Tensor, "p c m m"]:
    """The inverse of the lower triangular root of positive definite matrices."""
    if matrix.shape[-1] == 1:
        return matrix.rsqrt()
    eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype)
    root: Tensor = torch.linalg.solve_triangular(torch.linalg.cholesky(matrix), eye, upper=False)
    return root


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
