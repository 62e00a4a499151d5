"""How samples are dealt to splits, and a few of them chosen, where a data set's authors do not do it themselves."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

import numpy as np

from gate_data.errors import DataError

SEED = 20240
"""Of every order that is drawn here: two machines deal the same."""

T = TypeVar("T")


def shuffled(items: Sequence[T]) -> list[T]:
    """The same items in an order that depends on their number alone."""
    return [items[int(index)] for index in np.random.default_rng(SEED).permutation(len(items))]


def held_out(labels: Sequence[int], share: float, *, seed: int = SEED) -> tuple[list[int], list[int]]:
    """Rows to train on and rows to validate on, the latter with the same share of every class.

    Args:
        labels: the class of each row.
        share: of a class's rows that validate, rounded, at least one where the class has two rows or more.
        seed: of what is drawn.

    Returns:
        Both in a drawn order.

    Example:
        >>> train, validation = held_out([0, 0, 0, 1, 1, 1], 1 / 3)
        >>> len(train), sorted([0, 0, 0, 1, 1, 1][row] for row in validation)
        (4, [0, 1])
    """
    rng = np.random.default_rng(seed)
    array = np.asarray(labels)
    parts: tuple[list[int], list[int]] = ([], [])
    order = np.argsort(array, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(array[order])) + 1):
        rows = rng.permutation(rows)
        count = max(round(share * len(rows)), 1) if len(rows) > 1 else 0
        parts[1].extend(rows[:count].tolist())
        parts[0].extend(rows[count:].tolist())
    stay, held = (rng.permutation(np.array(part, dtype=np.int64)).tolist() for part in parts)
    return stay, held


def held_out_by_label(
    labels: Sequence[Sequence[int]], share: float, *, seed: int = SEED
) -> tuple[list[int], list[int]]:
    """The same for rows of 0 or 1 of each label: the rarest label's are dealt first, so that both sides have some.

    Source:
        Sechidis et al. (2011), iterative stratification.
    """
    rng = np.random.default_rng(seed)
    marks = np.asarray(labels, dtype=bool).reshape(len(labels), -1)
    shares = np.array([1 - share, share])
    quota = shares[:, None] * marks.sum(axis=0)  # of each side and label
    room = shares * len(marks)
    side = np.full(len(marks), -1)
    remaining = marks.copy()
    while remaining.any():
        counts = remaining.sum(axis=0)
        label = int(np.where(counts > 0, counts, len(marks) + 1).argmin())
        for row in rng.permutation(np.flatnonzero(remaining[:, label])):
            need = quota[:, label]
            best = np.flatnonzero(need >= need.max() - 1e-9)
            chosen = int(best[room[best].argmax()])
            side[row] = chosen
            quota[chosen] -= marks[row]
            room[chosen] -= 1
            remaining[row] = False
    for row in rng.permutation(np.flatnonzero(side < 0)):  # rows without a label
        chosen = int(room.argmax())
        side[row] = chosen
        room[chosen] -= 1
    if len(marks) > 1 and not (side == 1).any():
        side[int(rng.integers(len(marks)))] = 1
    parts = [rng.permutation(np.flatnonzero(side == part)) for part in (0, 1)]
    return [int(row) for row in parts[0]], [int(row) for row in parts[1]]


def dealt(
    groups: Sequence[Hashable], shares: Sequence[float], classes: Sequence[int] | None = None, *, seed: int = SEED
) -> list[list[int]]:
    """Rows dealt to splits so that no group (a patient, a camera, a film) is in two of them.

    Args:
        groups: the group of each row.
        shares: of the groups in all splits but the last, which has what is left; every split has at least one group.
        classes: the class of each row: each split then has the shares of every class, a group counting for its first
            row's class.
        seed: of what is drawn.

    Returns:
        Row numbers of each split, each in a drawn order.

    Raises:
        DataError: fewer groups than splits.

    Example:
        >>> train, rest = dealt(["a", "a", "b", "c", "d"], [0.75])
        >>> len(rest), set(train) | set(rest) == {0, 1, 2, 3, 4}
        (1, True)
    """
    rows: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups):
        rows.setdefault(group, []).append(row)
    splits = len(shares) + 1
    if len(rows) < splits:
        raise DataError(f"{len(rows)} groups are too few for {splits} splits")
    rng = np.random.default_rng(seed)
    strata: dict[int, list[Hashable]] = {}
    for group, members in rows.items():
        strata.setdefault(0 if classes is None else classes[members[0]], []).append(group)
    chosen: list[list[Hashable]] = [[] for _ in range(splits)]
    for _, stratum in sorted(strata.items()):
        order = [stratum[int(index)] for index in rng.permutation(len(stratum))]
        ends = [round(float(share) * len(order)) for share in np.cumsum(shares)]
        for part, first, last in zip(chosen, [0, *ends], [*ends, len(order)], strict=True):
            part.extend(order[first:last])
    for part in chosen:
        if not part:
            largest = max(chosen, key=len)
            part.append(largest.pop())
    return [[row for group in part for row in rows[group]] for part in chosen]


def spread(labels: Sequence[Hashable], limit: int | None) -> list[int]:
    """A few rows, drawn over the classes, each of which has its turn before one comes again; all without a limit."""
    if limit is None or limit >= len(labels):
        return list(range(len(labels)))
    rng = np.random.default_rng(SEED)
    counts: dict[Hashable, int] = {}
    turns = np.empty(len(labels), dtype=np.int64)
    order = rng.permutation(len(labels))
    for row in order:
        label = labels[int(row)]
        turns[row] = counts[label] = counts.get(label, -1) + 1
    return [int(row) for row in order[np.argsort(turns[order], kind="stable")][:limit]]
