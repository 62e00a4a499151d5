"""What is held out as a whole: single models, families of models, or all that came out later or are better."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from scipy.sparse import coo_array, csgraph

from eevee.errors import EeveeError
from eevee.tables.standard import overall_scores, standardise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Float, Int

    from eevee.tables.table import ResultTable

    Sums = Float[np.ndarray, "rows models"]

Holdout = Literal["model", "family", "date", "frontier"]
HOLDOUTS: tuple[str, ...] = get_args(Holdout)
ORDERED = ("date", "frontier")
WHOM = {
    "model": "models",
    "family": "families of models",
    "date": "newer models",
    "frontier": "better models than all that were learnt from",
}
LEAVE_ONE_OUT_UP_TO = 30
FOLDS_BEYOND = 5
BLOCKS = 8
FEWEST = 5  # models to learn from

Fold = tuple[list[int], list[int]]


def require_holdout(table: ResultTable, holdout: str) -> None:
    """Refuse a way of holding out that is unknown, or for which the table lacks families or dates."""
    if holdout not in HOLDOUTS:
        raise EeveeError(f"holdout {holdout!r}; expected one of {', '.join(HOLDOUTS)}")
    if holdout == "family":
        labels = sorted({family for family in with_families(table).families if family})
        if len(labels) < 2:
            listed = ", ".join(labels) or "none given"
            raise EeveeError(
                f"{table.name} has {len(labels)} families of models ({listed}), and the names of its models tell none; "
                "holding out families needs at least 2 (column model_family, or --models)"
            )
    if holdout == "date":
        labels = sorted({date for date in table.dates if date})
        if len(labels) < 2 or "" in table.dates:
            without = table.dates.count("") if table.dates else len(table.models)
            raise EeveeError(
                f"{table.name} has {len(labels)} dates and {without} models without; holding out by date needs a date "
                "for every model, and at least 2 (column model_date, or --models)"
            )


def with_families(table: ResultTable) -> ResultTable:
    """The table with its families; where it has none, with those that the names of its models tell.

    A name tells the letters that it begins with, after the organisation's: `google/siglip-base` and `siglip2_large` are
    of `siglip`. Names tell families where some share one and not all do.
    """
    if table.families:
        return table
    return replace(table, families=name_families(table.models))


def name_families(models: Sequence[str]) -> tuple[str, ...]:
    """Families that names of models tell; empty where they tell none."""
    stems = [re.split(r"[^a-z]", name.lower().rpartition("/")[2], maxsplit=1)[0] for name in models]
    count = Counter(stem for stem in stems if stem)
    return tuple(stems) if 2 <= len(count) < sum(count.values()) else ()


def families_note(table: ResultTable) -> str:
    """Which families the names tell, where the table has none of its own; else nothing."""
    families = with_families(table).families
    if table.families or not families:
        return ""
    several = [f"{name} ({count})" for name, count in Counter(filter(None, families)).most_common() if count > 1]
    return f"families by the names' beginnings: {', '.join(several)}; the others stand alone"


def held_together(table: ResultTable, holdout: str) -> ResultTable:
    """The table with what is held out as a whole in one group: its groups, for `family` joined with the families."""
    require_holdout(table, holdout)
    if holdout != "family":
        return table
    return table.with_groups(joined(table.groups, [family or None for family in with_families(table).families]))


def left_out_together(table: ResultTable, holdout: str) -> ResultTable:
    """The table as errors of single subsets leave models out: alone with their groups, or with their families.

    Raises:
        EeveeError: another way of holding out, which needs models in an order, or no families.
    """
    if holdout in ORDERED:
        raise EeveeError(f"holdout {holdout!r}; expected model or family: `select` and `predict` take {holdout}, too")
    return held_together(table, holdout)


def joined(first: Sequence[str], second: Sequence[str | None]) -> list[str]:
    """One label for all that share a label in either list, directly or through others; None shares nothing."""
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
    """Positions of held-out models of each fold; members of a group stay together."""
    labels = sorted(set(groups))
    number = folds or (len(labels) if len(labels) <= LEAVE_ONE_OUT_UP_TO else FOLDS_BEYOND)
    if not 2 <= number <= len(labels):
        raise EeveeError(f"folds is {number}; expected 2 to {len(labels)}, the number of groups of models")
    random.Random(int(seed)).shuffle(labels)
    fold = {label: i % number for i, label in enumerate(labels)}
    return [[i for i, label in enumerate(groups) if fold[label] == f] for f in range(number)]


def folds_of(table: ResultTable, holdout: str, folds: int | None, seed: int, *, falling: bool = False) -> list[Fold]:
    """(Models to learn from, held-out models) of each fold.

    By date and at the frontier the older (or worse) half is learnt from; the newer (better) half is held out in four
    blocks, each from all that is older (worse). A group lies where its newest or best member does. How good a model is
    tells the mean of its standardised results.
    """
    table = held_together(table, holdout)
    count = len(table.models)
    if holdout not in ORDERED:
        parts = split_groups(table.groups, folds, seed)
        return [(sorted(set(range(count)) - set(held)), held) for held in parts]
    keys = np.array(table.dates) if holdout == "date" else overall_scores(table) * (-1 if falling else 1)
    return rising_folds(keys, table.groups, table.name)


def rising_folds(keys: np.ndarray, groups: Sequence[str], name: str) -> list[Fold]:
    """The upper half of models by their keys, in four blocks, each held out from all those before it."""
    last: dict[str, int] = {}
    for group, own in zip(groups, np.unique(keys, return_inverse=True)[1].tolist(), strict=True):
        last[group] = max(own, last.get(group, own))
    last_rank = np.array([last[group] for group in groups])
    edges = np.sort(last_rank)[[len(last_rank) * b // BLOCKS for b in range(BLOCKS // 2, BLOCKS)]]
    block = np.searchsorted(np.unique(edges), last_rank, side="right")
    folds = []
    for number in sorted(set(block.tolist()))[1:]:
        train = np.flatnonzero(block < number).tolist()
        if len(train) >= FEWEST:
            folds.append((train, np.flatnonzero(block == number).tolist()))
    if not folds:
        raise EeveeError(
            f"{name}: {len(last_rank)} models do not split into {FEWEST} or more and others that are newer or better"
        )
    return folds


NEAR = 0.1
ROWS = 128


def near_pairs(
    table: ResultTable, near: float = NEAR
) -> tuple[Int[np.ndarray, "pairs 2"], Float[np.ndarray, " pairs"]]:
    r"""Pairs of models nearer than this, and their distances, found block by block: memory grows with their number.

    A distance is the root mean squared difference over the metrics that both have, in standard deviations: of two
    unrelated models about $\sqrt 2$, infinite where they have no metric in common.
    """
    pairs, distances = [np.zeros((0, 2), dtype=np.int64)], [np.zeros(0)]
    for start, total, common in _blocks(table):
        rows, columns = np.nonzero(total < near**2 * common)
        later = columns < rows + start
        pair = rows[later], columns[later]
        pairs.append(np.stack([pair[0] + start, pair[1]], axis=1))
        distances.append(np.sqrt(np.maximum(total[pair], 0.0) / np.broadcast_to(common, total.shape)[pair]))
    return np.concatenate(pairs), np.concatenate(distances)


def group_twins(table: ResultTable, near: float = NEAR) -> ResultTable:
    """The table with near-twins in one group, added to the groups that it already has.

    Args:
        table: the results.
        near: models nearer than this, in standard deviations, are twins; so are twins of twins.

    Example:
        >>> from eevee import load_table
        >>> table = group_twins(load_table("gate"), near=0.3)
        >>> len(set(table.groups)) < len(table.models)
        True
    """
    pairs, _ = near_pairs(table, near)
    if not len(pairs):
        return table
    count = len(table.models)
    near_twins = coo_array((np.ones(len(pairs)), pairs.T), shape=(count, count))
    _, labels = csgraph.connected_components(near_twins, directed=False)
    return table.with_groups(joined(table.groups, list(map(str, labels))))


def _blocks(table: ResultTable) -> Iterator[tuple[int, Sums, Sums]]:
    """Some models at a time: the first one's position, and sums of squared differences and metrics in common.

    The sums are over each of them and all models up to them.
    """
    data = standardise(table)
    mask = (data.mask & data.varies).astype(np.float64)
    values = data.values * mask
    squares = values**2
    norms = squares.sum(axis=1)
    ours, theirs = np.hstack([squares, mask, -2 * values]), np.hstack([mask, squares, values])
    for start in range(0, len(values), ROWS):
        rows, earlier = slice(start, start + ROWS), slice(0, start + ROWS)
        if data.complete:
            total = -2 * values[rows] @ values[earlier].T
            total += norms[rows, None]
            total += norms[earlier]
            yield start, total, np.full((1, 1), float(data.varies.sum()))
        else:
            yield start, ours[rows] @ theirs[earlier].T, mask[rows] @ mask[earlier].T
