"""Scores by slice of one's own test samples, and intervals that draw whole groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gate_data.near_splits import NEAR
from gate_data.original_files import GROUP
from gate_runner.tasks.registry import known_task_type
from paired_scores.clusters import cluster_interval
from paired_scores.paired import holm
from paired_scores.slices import Slices, slice_scores

if TYPE_CHECKING:
    from gate_data.data import Data
    from gate_runner.tasks.job import Outcome, Score

COLUMNS, VALUES = "column_names", "column_values"
"""Keys of what is known of each test sample, in the file of its outcomes."""


def few_groups(groups: int, alpha: float = 0.05, *, folds: bool = True) -> list[str]:
    """Say that a paired test over so few groups can reject nothing, and what to do; nothing where it can.

    A test that exchanges n whole groups has 2^n draws, of which two are as extreme as any: p is at least 2^(1 - n).

    Args:
        groups: of the test samples.
        alpha: level of the test.
        folds: whether the task type has the setting ``folds``, to which the line then points.

    Example:
        >>> few_groups(5)[0][:62]
        'with 5 groups no paired test can have p below 0.0625: at least'
        >>> few_groups(6)
        []
    """
    least = 2.0 ** (1 - groups)
    if least <= alpha:
        return []
    fewest = math.ceil(1 - math.log2(alpha))
    line = (
        f"with {groups} groups no paired test can have p below {least:.4g}: at least {fewest} are needed, by a larger "
        "test_share under [splits]"
    )
    return [line + ", or by gate-runner run --setting folds=5, which tests every image" * folds]


def with_slices(
    outcome: Outcome, data: Data[Any], task: str, seed: int, order: Sequence[int] | None = None
) -> tuple[Outcome, str]:
    """Return the outcome with its scores by slice, its interval over groups, and what a reader must know of that.

    Args:
        outcome: of the test split.
        data: whose test split has columns; without any, nothing changes.
        task: the task type's name.
        seed: of all draws.
        order: positions in the test split, if not all of it was tested.
    """
    columns = columns_of(data, order)
    if not columns or any(len(values) != len(outcome.samples) for values in columns.values()):
        return outcome, ""
    score = outcome.scores[0]
    kind = known_task_type(task)
    statistic = kind.statistic(score.metric)
    groups = columns.get(GROUP)
    training, note = dict(outcome.training), ""
    within = kind.within(score.metric, score.direction, outcome.samples)
    how: dict[str, Any] = {"seed": seed, "statistic": statistic, "within": within}
    if groups is not None and len(set(groups)) > 1:
        _, low, high = cluster_interval(score.metric, outcome.samples, groups, **how)
        count = len(set(groups))
        training["clusters"] = {"groups": count, "plain": [score.low, score.high]}
        widened = replace(score, low=min(low, score.low), high=max(high, score.high))
        outcome = replace(outcome, scores=(widened, *outcome.scores[1:]))
        note = f"the interval of {score.metric} draws {count:,} whole groups, not {len(groups):,} samples"
        note += "".join(f"; {line}" for line in few_groups(count, folds=kind.weighs))
    elif groups is not None:
        note = "all test samples are of one group: the interval says nothing about others"
    tables = []
    if NEAR in columns:
        parts = slice_scores(
            score.metric, outcome.samples, columns[NEAR], direction=score.direction, clusters=groups, **how
        )
        training["near"] = {row.name: asdict(row) for row in parts.rows}
        note = "; ".join(filter(None, [note, _without_copies(outcome.scores[0], parts)]))
    for name, values in columns.items():
        if name not in (GROUP, NEAR):
            parts = slice_scores(
                score.metric, outcome.samples, values, direction=score.direction, clusters=groups, **how
            )
            tables.append({"by": name, **asdict(parts)})
    if tables:
        training["slices"] = _corrected(tables)
    return replace(outcome, training=training), note


def _without_copies(score: Score, parts: Slices) -> str:
    """Give the score with and without test images that are near copies of others."""
    by_name = {row.name: row for row in parts.rows}
    copies, other = by_name["yes"], by_name.get("no")
    if other is None or other.value is None:
        return f"every test image is a near copy of others: {score.metric} has no value without them"
    between = "" if other.low is None else f" ({other.low:.3f} to {other.high:.3f})"
    are = "1 near copy" if copies.samples == 1 else f"{copies.samples:,} near copies"
    return f"{score.metric} is {score.value:.3f} with the {are} among test images, {other.value:.3f}{between} without"


def columns_of(data: Data[Any], order: Sequence[int] | None = None) -> dict[str, tuple[str, ...]]:
    """Return what is known of each tested sample, by name."""
    columns = data.test.columns
    if order is None:
        return dict(columns)
    return {name: tuple(values[at] for at in order) for name, values in columns.items()}


def as_rows(columns: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
    """Return arrays in which the columns are kept beside outcomes; empty for none."""
    if not columns:
        return {}
    return {COLUMNS: np.array(list(columns)), VALUES: np.array([list(values) for values in columns.values()])}


def from_rows(rows: Mapping[str, np.ndarray]) -> dict[str, list[str]]:
    """Return the columns that were kept, by name."""
    if COLUMNS not in rows or VALUES not in rows:
        return {}
    return {
        str(name): [str(value) for value in values] for name, values in zip(rows[COLUMNS], rows[VALUES], strict=True)
    }


def _corrected(tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tables whose p values are corrected over all of them together, where there are several."""
    for table in tables:
        table["rows"] = [dict(row) for row in table["rows"]]
    if len(tables) > 1:
        tested = [row for table in tables for row in table["rows"] if row["p"] is not None]
        for row, corrected in zip(tested, holm([row["p"] for row in tested]), strict=True):
            row["p_adjusted"] = corrected
    return tables
