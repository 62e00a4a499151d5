"""The few images of each class that CoOp draws, by Python's own generator, so that the published draws come out."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gate_data.errors import UsageError

MOST_VALIDATED = 4
"""Images of a class that validate, at most."""


class DrawnShots(NamedTuple):
    """Rows of the training and of the validation list, in the order in which they are drawn.

    ``short`` holds the classes with fewer training images than shots, all of which are taken.

    Example:
        >>> draw_shots([0, 0, 1], [], 2, seed=1).short
        (1,)
    """

    train: tuple[int, ...]
    validation: tuple[int, ...]
    short: tuple[int, ...] = ()


def draw_shots(train: Sequence[int], validation: Sequence[int], shots: int, seed: int) -> DrawnShots:
    """Draw some images of each class to train on, and ``min(shots, 4)`` of each to validate on.

    Classes are taken in the order in which the list has them first; `random.sample` draws from the images of each, in
    the order of the list. A class with fewer images gives all of them, and nothing is drawn for it. The validation list
    is drawn from afterwards, with the generator as the first list left it. Python's global generator stays as it is.

    Args:
        train: the class of each training image.
        validation: the class of each validation image; may be empty.
        shots: images of each class to train on, at least 1.
        seed: of Python's generator; the published ones are 1, 2 and 3.

    Raises:
        UsageError: fewer shots than 1, or a negative seed.

    Example:
        >>> draw_shots([0, 0, 0, 1, 1, 1], [1, 0, 1, 0], 2, seed=1)
        DrawnShots(train=(0, 2, 4, 3), validation=(2, 0, 3, 1), short=())

    Source:
        Zhou et al., Learning to Prompt for Vision-Language Models, IJCV 2022, as its published code draws; the draws of
        linzhiqiu/cross_modal_adaptation (``indices/``) are the same.
    """
    if isinstance(shots, bool) or not isinstance(shots, int) or shots < 1:
        raise UsageError(f"shots must be a whole number of at least 1, not {shots!r}")
    if seed < 0:
        raise UsageError(f"seed must be at least 0, not {seed}: Python draws the same for -1 as for 1")
    generator = random.Random(seed)
    by_class = _by_class(train)
    short = tuple(sorted(label for label, rows in by_class.items() if len(rows) < shots))
    drawn = _drawn(by_class.values(), shots, generator)
    return DrawnShots(drawn, _drawn(_by_class(validation).values(), min(shots, MOST_VALIDATED), generator), short)


def _by_class(labels: Sequence[int]) -> dict[int, list[int]]:
    """Rows of each class, classes in the order of their first row."""
    rows: dict[int, list[int]] = {}
    for row, label in enumerate(labels):
        rows.setdefault(int(label), []).append(row)
    return rows


def _drawn(classes: Iterable[list[int]], count: int, generator: random.Random) -> tuple[int, ...]:
    drawn: list[int] = []
    for rows in classes:
        drawn += generator.sample(rows, count) if len(rows) >= count else rows
    return tuple(drawn)
