"""What is held out as a whole: single models, families of models, or all that came out after a date."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from eevee.errors import EeveeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eevee.tables.table import ResultTable

Holdout = Literal["model", "family", "date"]
HOLDOUTS: tuple[str, ...] = get_args(Holdout)
LEAVE_ONE_OUT_UP_TO = 30
FOLDS_BEYOND = 5
BLOCKS = 4

Fold = tuple[list[int], list[int]]


def require_holdout(table: ResultTable, holdout: str) -> None:
    """Refuse a way of holding out that is unknown, or for which the table lacks families or dates.

    Raises:
        EeveeError: the message says what the table lacks.
    """
    if holdout not in HOLDOUTS:
        raise EeveeError(f"holdout {holdout!r}; expected one of {', '.join(HOLDOUTS)}")
    if holdout == "family":
        found = sorted({family for family in table.families if family})
        if len(found) < 2:
            raise EeveeError(
                f"{table.name} has {len(found)} families of models ({', '.join(found) or 'none given'}); holding out "
                f"families needs at least 2 (column model_family, or --models)"
            )
    if holdout == "date":
        found = sorted({date for date in table.dates if date})
        if len(found) < 2 or "" in table.dates:
            raise EeveeError(
                f"{table.name} has {len(found)} dates and {(table.dates or ('',)).count('')} models without; holding "
                f"out by date needs a date for every model, and at least 2 (column model_date, or --models)"
            )


def held_together(table: ResultTable, holdout: str) -> ResultTable:
    """The table with what is held out as a whole in one group: its groups, for `family` joined with the families.

    Example:
        >>> from eevee import load_table
        >>> len(set(held_together(load_table("mieb"), "family").groups))
        15
    """
    require_holdout(table, holdout)
    if holdout != "family":
        return table
    return table.with_groups(joined(table.groups, [family or None for family in table.families]))


def joined(first: Sequence[str], second: Sequence[str | None]) -> list[str]:
    """One label for all that share a label in either list, directly or through others; None shares nothing.

    Example:
        >>> joined(["a", "a", "b", "c"], [None, "x", "x", None])
        ['a', 'a', 'a', 'c']
    """
    label = list(first)
    while True:
        least: dict[tuple[int, str], str] = {}
        for own, a, b in zip(label, first, second, strict=True):
            for key in ((0, a), *(((1, b),) if b is not None else ())):
                least[key] = min(own, least.get(key, own))
        new = [
            min(least[0, a], least[1, b]) if b is not None else least[0, a] for a, b in zip(first, second, strict=True)
        ]
        if new == label:
            return label
        label = new


def split_groups(groups: Sequence[str], folds: int | None, seed: int) -> list[list[int]]:
    """Positions of held-out models of each fold; members of a group stay together.

    Args:
        groups: label of each model.
        folds: how many; by default one for each group up to 30 groups, and 5 beyond.
        seed: of the shuffle.
    """
    labels = sorted(set(groups))
    number = folds or (len(labels) if len(labels) <= LEAVE_ONE_OUT_UP_TO else FOLDS_BEYOND)
    if not 2 <= number <= len(labels):
        raise EeveeError(f"folds is {number}; expected 2 to {len(labels)}, the number of groups of models")
    random.Random(seed).shuffle(labels)
    fold = {label: i % number for i, label in enumerate(labels)}
    return [[i for i, label in enumerate(groups) if fold[label] == f] for f in range(number)]


def folds_of(table: ResultTable, holdout: str, folds: int | None, seed: int) -> list[Fold]:
    """(Models to learn from, held-out models) of each fold.

    By date the models stand in four blocks, oldest first, and each but the first is held out from what is older;
    a group lies where its newest member does.

    Args:
        table: the results.
        holdout: `model` (with its group), `family` or `date`.
        folds: how many, for the first two, see `split_groups`.
        seed: of their shuffle.
    """
    table = held_together(table, holdout)
    count = len(table.models)
    if holdout != "date":
        parts = split_groups(table.groups, folds, seed)
        return [(sorted(set(range(count)) - set(held)), held) for held in parts]
    newest: dict[str, str] = {}
    for group, date in zip(table.groups, table.dates, strict=True):
        newest[group] = max(date, newest.get(group, ""))
    when = np.array([newest[group] for group in table.groups])
    edges = np.sort(when)[[count * b // BLOCKS for b in range(1, BLOCKS)]]
    block = np.searchsorted(np.unique(edges), when, side="right")
    found = []
    for number in sorted(set(block.tolist()))[1:]:
        train = np.flatnonzero(block < number).tolist()
        if len(train) >= 5:
            found.append((train, np.flatnonzero(block == number).tolist()))
    if not found:
        raise EeveeError(f"{table.name}: no date splits its models into older ones (5 or more) and newer ones")
    return found
