"""Whole groups (patients, places, films) in splits that hold every class that can be held, and the shares asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from gate_data.errors import DataError
from gate_data.readers.splits import SEED

Label = int | Sequence[int]


def group_split(
    groups: Sequence[Hashable],
    shares: Sequence[float],
    classes: Sequence[Label] | None = None,
    *,
    seed: int = SEED,
    trained: bool = True,
    unit: str = "groups",
) -> list[list[int]]:
    """Deal rows to splits so that no group is in two of them.

    The first split is trained on, and has every class. A class with as many groups as there are splits is in each of
    them, as far as groups of several classes allow it. All other groups keep each split's share of the rows and of
    every class, what is rounded for one class being made up for by the next.

    Args:
        groups: the group of each row.
        shares: of the rows in each split, summing to 1; the first is trained on.
        classes: the class of each row, or 0/1 of each of its labels; None for one class.
        seed: of what is drawn.
        trained: whether the first split must have every class; else a class of one group may be anywhere.
        unit: what errors call the groups.

    Returns:
        Row numbers of each split, each in a drawn order that depends on the seed alone.

    Raises:
        DataError: there are too few groups; the message says how many, and whether their classes are the reason.

    Example:
        >>> patients = ["a", "a", "b", "b", "c", "d", "e", "f"]
        >>> train, rest = group_split(patients, [0.75, 0.25], [0, 0, 0, 0, 0, 1, 1, 1])
        >>> {patients[row] for row in train} & {patients[row] for row in rest}
        set()

    Source:
        scikit-learn's ``StratifiedGroupKFold`` balances classes over folds of equal size alike; it promises no class to
        any fold.
    """
    rows: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups):
        rows.setdefault(group, []).append(row)
    members = list(rows.values())
    if len(members) < len(shares):
        raise DataError(f"{len(members)} {unit} are too few for {len(shares)} splits")
    rng = np.random.default_rng(seed)
    counts = [Counter(_labels(classes, numbers)) for numbers in members]
    dealing = _Dealing(counts, [len(numbers) for numbers in members], shares, rng)
    dealing.hold_classes()
    dealing.deal_rest()
    dealing.fill_empty(unit, trained=trained)
    order = [int(index) for index in rng.permutation(len(members))]
    drawn = [[row for index in order if dealing.split[index] == part for row in members[index]] for part in dealing.all]
    return [[part[int(at)] for at in rng.permutation(len(part))] for part in drawn]


def _labels(classes: Sequence[Label] | None, rows: Iterable[int]) -> list[int]:
    """The classes of rows, each as often as it occurs; a row without a label counts for none."""
    if classes is None:
        return [0 for _ in rows]
    labels: list[int] = []
    for row in rows:
        label = classes[row]
        labels += [label] if isinstance(label, int) else [index for index, mark in enumerate(label) if mark]
    return labels


class _Dealing:
    """Which split each group is in, and what each split has and should have."""

    def __init__(
        self, counts: Sequence[Counter[int]], sizes: Sequence[int], shares: Sequence[float], rng: np.random.Generator
    ) -> None:
        self.counts, self.sizes, self.shares = counts, sizes, [float(share) for share in shares]
        self.all = range(len(shares))
        self.split = [-1] * len(counts)
        self.order = [int(index) for index in rng.permutation(len(counts))]
        self.totals: Counter[int] = Counter()
        self.holders: dict[int, list[int]] = {}  # of each class, its groups in the drawn order
        for index in self.order:
            self.totals.update(counts[index])
            for label in counts[index]:
                self.holders.setdefault(label, []).append(index)
        self.rows = [0] * len(shares)
        self.having: list[Counter[int]] = [Counter() for _ in shares]  # rows of each class
        self.groups: list[Counter[int]] = [Counter() for _ in shares]  # groups of each class

    def put(self, index: int, part: int) -> None:
        """Bring a group into a split, out of the one that it is in."""
        if (before := self.split[index]) >= 0:
            self.rows[before] -= self.sizes[index]
            self.having[before].subtract(self.counts[index])
            self.groups[before].subtract(self.counts[index].keys())
        self.split[index] = part
        self.rows[part] += self.sizes[index]
        self.having[part].update(self.counts[index])
        self.groups[part].update(self.counts[index].keys())

    def hold_classes(self) -> None:
        """Give each split a group of each class that has enough of them, the rarest first."""
        small_first = sorted(self.all, key=lambda part: (self.shares[part], -part))
        for label, holders in sorted(self.holders.items(), key=lambda item: (len(item[1]), item[0])):
            wanted = small_first if len(holders) >= len(self.all) else [0]
            lacking = [part for part in wanted if not self.groups[part][label]]
            free = [index for index in holders if self.split[index] < 0]
            if len(free) < len(lacking) and 0 in lacking:  # training before all others
                lacking = [0, *(part for part in lacking if part != 0)]
            for part in lacking:
                if free:
                    index = self._fitting(free, label, part)
                    free.remove(index)
                    self.put(index, part)
                else:
                    self._borrow(holders, label, part)

    def _fitting(self, free: Sequence[int], label: int, part: int) -> int:
        """The first drawn group that is not more than the split should have of the class; else the smallest."""
        room = self.shares[part] * self.totals[label]
        fitting = (index for index in free if self.counts[index][label] <= room)
        return next(fitting, min(free, key=lambda index: self.counts[index][label]))

    def _borrow(self, holders: Sequence[int], label: int, part: int) -> None:
        """Take a class's group out of a split that has others of all its classes; for training, out of any."""
        for index in sorted(holders, key=lambda index: self.sizes[index]):
            if self.split[index] != part and self._spare(index):
                self.put(index, part)
                return
        if part == 0:
            self.put(min(holders, key=lambda index: self.sizes[index]), 0)

    def _spare(self, index: int) -> bool:
        return all(self.groups[self.split[index]][label] > 1 for label in self.counts[index])

    def deal_rest(self) -> None:
        """Give each other group, the largest first, to the split that lacks most of its classes and of rows."""
        dealt = [index for index in self.order if self.split[index] >= 0]
        processed: Counter[int] = Counter()
        for index in dealt:
            processed.update(self.counts[index])
        rows = sum(self.sizes[index] for index in dealt)
        remaining = [index for index in self.order if self.split[index] < 0]
        for index in sorted(remaining, key=lambda index: -self.sizes[index]):
            processed.update(self.counts[index])
            rows += self.sizes[index]
            of_group, total = self.counts[index], max(1, self.counts[index].total())

            def lack(part: int, of_group: Counter[int] = of_group, total: int = total, rows: int = rows) -> float:
                of_classes = sum(
                    count * (self.shares[part] * processed[label] - self.having[part][label])
                    for label, count in of_group.items()
                )
                return of_classes / total + self.shares[part] * rows - self.rows[part]

            self.put(index, max(self.all, key=lambda part: (lack(part), -part)))

    def fill_empty(self, unit: str, *, trained: bool) -> None:
        """Give a group to each split that has none, but none by which training would lose a class."""
        for part in self.all:
            if self.rows[part]:
                continue
            owners = Counter(self.split)
            spare = [
                index
                for index in self.order
                if owners[self.split[index]] > 1 and (self._spare(index) or not (trained and self.split[index] == 0))
            ]
            if not spare:
                raise DataError(
                    f"{len(self.counts)} {unit} are too few for {len(self.shares)} splits: training needs every class, "
                    f"and no other {unit} have classes that are in several; give more, or splits of your own"
                )
            self.put(min(spare, key=lambda index: self.sizes[index]), part)
