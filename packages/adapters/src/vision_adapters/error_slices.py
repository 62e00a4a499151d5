"""Slices that no column names: wrong answers that lie close together, on one half, tested on the other."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from paired_scores.labels import cluster_labels
from paired_scores.metrics.arrays import as_array
from paired_scores.paired import holm
from paired_scores.slices import Slice, slice_scores
from vision_adapters.clusters import cluster

__all__ = ["ErrorSlice", "error_slices"]

_PER_SLICE = 10
"""Wrong answers of the first half for each slice that is looked for."""
_INSIDE = 75
"""Percent of a cluster's wrong answers that are within its slice."""
_REST = "other samples"


@dataclass(frozen=True)
class ErrorSlice:
    """A neighbourhood of wrong answers.

    Args:
        members: positions of the second half's samples within it, the nearest to its centre first.
        errors: wrong answers of the first half that it was made of.
        score: of those members, tested against the rest of the second half; ``p_adjusted`` is over all slices.

    Example:
        >>> from paired_scores.slices import Slice
        >>> score = Slice("3", 20, 0.4, 0.2, 0.6, difference=-0.3, p=0.001, p_adjusted=0.005)
        >>> ErrorSlice((4, 9), 12, score).holds
        True
    """

    members: tuple[int, ...]
    errors: int
    score: Slice

    @property
    def holds(self) -> bool:
        """Whether the members score significantly worse than the rest at 5 %."""
        worse, p = self.score.difference, self.score.p_adjusted
        return worse is not None and worse < 0 and p is not None and p < 0.05


def error_slices(
    features: Float[npt.ArrayLike, "n d"],
    hits: Float[npt.ArrayLike, " n"],
    *,
    most: int = 5,
    groups: Sequence[Hashable] | None = None,
    seed: int = 0,
) -> list[ErrorSlice]:
    """Cluster the wrong answers of a random half by their features, and test each neighbourhood on the other half.

    A slice is all samples of the second half that are as near to a cluster's centre as three quarters of the wrong
    answers that made it. What is tested took no part in the search, so p values hold; they are corrected by Holm.

    Args:
        features: of the test samples; lengths do not matter.
        hits: 1 for a right answer, 0 for a wrong one.
        most: clusters at most; one for each 10 wrong answers of the first half.
        groups: a label for each sample; a group is in one half, and the test exchanges whole groups.
        seed: of the halves, the clusters and the test.

    Returns:
        Slices, the lowest score first; none where fewer than 10 answers of the first half are wrong.

    Raises:
        ValueError: not a number 0 or 1 for each row, features that are NaN or infinite, not a group for each row.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.normal(size=(400, 8))
        >>> right = np.where(rows[:, 0] > 1, rng.random(400) < 0.2, rng.random(400) < 0.95)
        >>> worst = error_slices(rows, right)[0]
        >>> worst.holds, worst.score.value < 0.6
        (True, True)

    Source: ours; errors are clustered by Domino, too (Eyuboglu et al., ICLR 2022), which has no held-out test.
    """
    rows, right = (as_array(given, name).astype(np.float64) for given, name in ((features, "features"), (hits, "hits")))
    if rows.ndim != 2 or right.shape != rows.shape[:1] or not np.isin(right, (0, 1)).all():
        raise ValueError(f"features {rows.shape} and hits {right.shape}: expected [n, d] and a 0 or 1 for each row")
    if not np.isfinite(rows).all():
        raise ValueError(f"features: row {int((~np.isfinite(rows)).any(axis=1).argmax())} holds NaN or infinity")
    labels = None if groups is None else cluster_labels(groups, len(rows))  # a list: by place, and equal ones alike
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-12)
    first, second = _halves(len(rows), labels, seed)
    wrong = first[right[first] == 0]
    count = min(most, len(wrong) // _PER_SLICE)
    if count < 1 or len(second) < 2:
        return []
    numbers = cluster(rows[wrong], count, seed=seed)
    slices = []
    inner = None if labels is None else [labels[at] for at in second.tolist()]
    for number in range(count):
        made_of = rows[wrong[numbers == number]]
        if not len(made_of):
            continue
        centre = made_of.mean(axis=0)
        reach = np.percentile(np.linalg.norm(made_of - centre, axis=1), _INSIDE)
        distances = np.linalg.norm(rows[second] - centre, axis=1)
        is_inside = distances <= reach
        if not is_inside.any():
            continue
        names = np.where(is_inside, "slice", _REST).tolist()
        scored = slice_scores("acc@1", right[second], names, clusters=inner, seed=seed).rows
        (score,) = (row for row in scored if row.name == "slice")
        order = np.argsort(distances, kind="stable")[: int(is_inside.sum())]
        slices.append(ErrorSlice(tuple(second[order].tolist()), len(made_of), score))
    tested = [at for at, part in enumerate(slices) if part.score.p is not None]
    for at, p in zip(tested, holm([slices[at].score.p or 0.0 for at in tested]), strict=True):
        slices[at] = replace(slices[at], score=replace(slices[at].score, p_adjusted=p))
    return sorted(slices, key=lambda part: 1.0 if part.score.value is None else part.score.value)


def _halves(
    count: int, groups: Sequence[Hashable] | None, seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Positions of two random halves, of whole groups if there are any."""
    rng = np.random.default_rng(seed)
    if groups is None:
        order = rng.permutation(count)
        return np.sort(order[: count // 2]), np.sort(order[count // 2 :])
    number: dict[Hashable, int] = {}
    of_sample = np.array([number.setdefault(group, len(number)) for group in groups])
    in_first = np.isin(of_sample, rng.permutation(len(number))[: len(number) // 2])
    return np.flatnonzero(in_first), np.flatnonzero(~in_first)
