"""How samples are dealt to splits where a data set's authors do not do it themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from gate_runner.benchmarks.data import Split, as_targets
from gate_runner.benchmarks.pictures import Pictures
from gate_runner.errors import DataError

SEED = 20240
"""Of every order that is drawn here: two machines deal the same."""

T = TypeVar("T")


def shuffled(items: Sequence[T]) -> list[T]:
    """The same items in an order that depends on their number alone."""
    return [items[int(index)] for index in np.random.default_rng(SEED).permutation(len(items))]


def held_out(labels: Sequence[int], share: float) -> tuple[list[int], list[int]]:
    """Rows to train on and rows to validate on, the latter with the same share of every class.

    Args:
        labels: the class of each row.
        share: of a class's rows that validate, rounded, at least one where the class has two rows or more.

    Returns:
        Both in a drawn order.

    Example:
        >>> train, validation = held_out([0, 0, 0, 1, 1, 1], 1 / 3)
        >>> len(train), sorted([0, 0, 0, 1, 1, 1][row] for row in validation)
        (4, [0, 1])
    """
    rng = np.random.default_rng(SEED)
    array = np.asarray(labels)
    parts: tuple[list[int], list[int]] = ([], [])
    for label in np.unique(array):
        rows = rng.permutation(np.flatnonzero(array == label))
        count = max(round(share * len(rows)), 1) if len(rows) > 1 else 0
        parts[1].extend(rows[:count].tolist())
        parts[0].extend(rows[count:].tolist())
    return [int(row) for row in rng.permutation(parts[0])], [int(row) for row in rng.permutation(parts[1])]


def few_shot_split(classes: Mapping[str, Sequence[Path]], side: int, limit: int | None) -> Split:
    """A split of whole classes; a limit keeps few classes with 20 images each, and at least five classes.

    Args:
        classes: name to files.
        side: of the images.
        limit: at most so many images, or None.

    Returns:
        Images sorted by class.

    Raises:
        DataError: a class without images, by name.
    """
    for name, files in classes.items():
        if not files:
            raise DataError(f"class {name!r} has no images")
    names = list(classes)
    each = max(len(files) for files in classes.values())
    if limit is not None and limit < sum(len(files) for files in classes.values()):
        names = names[: max(5, limit // 20)]
        each = max(1, limit // len(names))
    chosen = [(label, path) for label, name in enumerate(names) for path in classes[name][:each]]
    return Split(Pictures.of([path for _, path in chosen], side), as_targets([label for label, _ in chosen]))


def folder(root: Path, names: Sequence[str], inside: str) -> Path | None:
    """The first of several folders under a data root, or the root itself, that holds a file or folder.

    Args:
        root: the data root.
        names: what the data set's folder may be called.
        inside: what must lie in it.

    Returns:
        The folder, or None.
    """
    return next((path for path in (*(root / name for name in names), root) if (path / inside).exists()), None)
