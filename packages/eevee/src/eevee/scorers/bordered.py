"""Ridge errors of candidates that differ in one benchmark, on tables with gaps: one factorisation for all of them."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eevee.algebra import algebra_threads, one_thread
from eevee.scorers.scorer import errors_of_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float, Int

    from eevee.tables.standard import Standardised

PART = 64  # additions to one base that a task takes: enough to forget what the base costs, few enough to share out


class Twins(NamedTuple):
    """The groups of one size, in the fits of every target."""

    members: Int[np.ndarray, "g m"]
    inverse: Float[np.ndarray, "p g m m"]


class Fits(NamedTuple):
    """The fits of every target on some columns of a table with gaps, before anything is left out."""

    inputs: Float[np.ndarray, "n q"]
    inverse: Float[np.ndarray, "p q q"]
    residual: Float[np.ndarray, "n p"]
    leverage: Float[np.ndarray, "n p"]
    twins: Sequence[Twins] = ()


def twins_of(data: Standardised, inputs: Float[np.ndarray, "n q"], inverse: Float[np.ndarray, "p q q"]) -> list[Twins]:
    """The groups of a table by their size, with what leaving one out needs of the fits of every target."""
    by_size: dict[int, list[np.ndarray]] = defaultdict(list)
    for group in data.twins:
        by_size[len(group)].append(group)
    mask = data.measured
    twins = []
    for size, groups in by_size.items():
        members = np.stack(groups)
        rows, measured = inputs[members], mask[members].transpose(2, 0, 1)  # (g, m, q), (p, g, m)
        hat = (rows @ inverse[:, None]) @ rows.swapaxes(1, 2) * measured[..., :, None] * measured[..., None, :]
        twins.append(Twins(members, np.linalg.inv(np.eye(size) - hat)))
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
    values, mask = data.values, data.measured
    n, p = values.shape
    index = np.array([list(columns) for columns in added])
    count, m = index.shape
    columns = values[:, index]  # (n, c, m)
    width = fits.inputs.shape[1]
    flat = columns.reshape(n, -1)
    cross = (mask.T @ (flat[:, :, None] * fits.inputs[:, None, :]).reshape(n, -1)).reshape(p, count, m, width)
    back = cross @ fits.inverse[:, None]
    own = (mask.T @ (columns[:, :, :, None] * columns[:, :, None, :]).reshape(n, -1)).reshape(p, count, m, m)
    own[:, :, np.arange(m), np.arange(m)] += alpha
    root = _inverse_root(own - back @ cross.swapaxes(2, 3))  # (p, c, m, m), below the diagonal
    slope = -(root @ (fits.residual.T @ flat).reshape(p, count, m, 1))[..., 0]
    maps = root @ np.concatenate([-back, np.broadcast_to(np.eye(m), (p, count, m, m))], axis=3)
    maps = np.ascontiguousarray(maps.transpose(1, 2, 3, 0))  # (c, m, q + m, p)
    room = np.where(mask == 0, np.inf, 1 - fits.leverage)  # a missing target divides to zero
    varies = data.varies.astype(np.float64)
    tops, shares = np.empty((count, n)), np.empty((count, n))
    measured = [mask[twins.members] for twins in fits.twins]
    rows = np.concatenate([fits.inputs, columns[:, 0]], axis=1)
    parts, off, share, product = np.empty((m, n, p)), np.empty((n, p)), np.empty((n, p)), np.empty((n, p))
    for i, chosen in enumerate(added):
        counted = varies
        if unselected:
            counted = varies.copy()
            counted[[*base, *chosen]] = 0.0
        rows[:, width:] = columns[:, i]
        for k in range(m):
            np.matmul(rows, maps[i, k], out=parts[k])
            np.multiply(parts[k], slope[:, i, k], out=product)
            np.add(off if k else fits.residual, product, out=off)
            np.multiply(parts[k], parts[k], out=product)
            np.subtract(share if k else room, product, out=share)
        for twins, present in zip(fits.twins, measured, strict=True):
            off[twins.members] = _without_groups(twins, off[twins.members] * present, parts[:, twins.members] * present)
            share[twins.members] = 1.0
        off /= share
        off *= off
        tops[i] = off @ counted
        shares[i] = mask @ counted
    return errors_of_sums(tops, shares)


def _without_groups(
    twins: Twins, off: Float[np.ndarray, "g m p"], parts: Float[np.ndarray, "k g m p"]
) -> Float[np.ndarray, "g m p"]:
    """Residuals of groups from the fits without them, given what added columns change."""
    right = np.concatenate([off[None], parts]).transpose(3, 1, 2, 0)  # (p, g, m, 1 + k)
    solved = twins.inverse @ right
    inner = parts.transpose(3, 1, 0, 2) @ solved  # (p, g, k, 1 + k)
    if len(parts) == 1:
        weight = inner[..., :1] / (1 - inner[..., 1:])
    else:
        weight = np.linalg.solve(np.eye(len(parts)) - inner[..., 1:], inner[..., :1])
    return np.asarray((solved[..., :1] + solved[..., 1:] @ weight)[..., 0].transpose(1, 2, 0))


def _inverse_root(matrix: Float[np.ndarray, "p c m m"]) -> Float[np.ndarray, "p c m m"]:
    """The inverse of the lower triangular root of positive definite matrices."""
    if matrix.shape[-1] == 1:
        return np.asarray(1 / np.sqrt(matrix))
    return np.tril(np.linalg.inv(np.linalg.cholesky(matrix)))


def in_threads(tasks: Sequence[Callable[[], None]]) -> None:
    """Run tasks on as many threads as the algebra has been given, each with one: products this small lose by more."""
    threads = min(algebra_threads(), len(tasks))
    with one_thread():
        if threads < 2:
            for task in tasks:
                task()
            return
        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(task) for task in tasks]:
                done.result()
