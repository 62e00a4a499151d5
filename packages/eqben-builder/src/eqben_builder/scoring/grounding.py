"""Where in a video one state turns into another: the boundary that a pair's similarities point to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from paired_scores.metrics.arrays import as_array, refuse_masked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64
    from numpy.typing import ArrayLike

THRESHOLDS = (0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
"""Seconds, as in the paper's table 12."""


class Grounding(NamedTuple):
    """Where the boundary is put, and how sure that is.

    time: Seconds, half way between the two frames.
    frame: Index of the frame before it.
    scores: float64 [frames - 1], one for each gap between frames.

    Example:
        >>> boundary = ground_boundary([[0.9, 0.9, 0.1, 0.1], [0.2, 0.2, 0.8, 0.8]], [0.0, 1.0, 2.0, 3.0])
        >>> boundary.time, boundary.frame, len(boundary.scores)
        (1.5, 1, 3)
    """

    time: float
    frame: int
    scores: Float64[np.ndarray, " frames"]


def ground_boundary(similarities: ArrayLike, times: ArrayLike) -> Grounding:
    """Find the gap between two frames where "before" best turns into "after".

    g_t = s(before, I_t) + s(after, I_{t+1}) - s(before, I_{t+1}) - s(after, I_t), largest at the boundary.

    Args:
        similarities: [2, frames]: of the caption before and of the caption after, with each frame; frames at least 2.
        times: [frames], seconds, strictly rising; the paper samples five a second.

    Returns:
        A `Grounding`; of equal scores, the earliest.

    Raises:
        ValueError: A shape that is wrong, an entry that is not finite, times that do not rise.

    Example:
        >>> ground_boundary([[0.9, 0.9, 0.1, 0.1], [0.2, 0.1, 0.8, 0.9]], [0.0, 0.2, 0.4, 0.6]).time
        0.30000000000000004

    Source:
        EqBen appendix A.6. The score's formula did not survive in our copy; it is described as large where both frames
        match their own caption at once. This is the 2 x 2 contrast with that property, in which what a caption or a
        frame scores in general cancels.
    """
    s, t = (
        as_array(given, name).astype(np.float64) for given, name in ((similarities, "similarities"), (times, "times"))
    )
    if s.ndim != 2 or s.shape[0] != 2 or s.shape[1] < 2 or t.shape != (s.shape[1],):
        raise ValueError(f"similarities have the shape {s.shape} and times {t.shape}: expected (2, f), (f,), f >= 2")
    if not np.isfinite(s).all() or not np.isfinite(t).all():
        raise ValueError("similarities or times hold a value that is not finite")
    if (np.diff(t) <= 0).any():
        k = int(np.argmax(np.diff(t) <= 0))
        raise ValueError(f"times must rise: {t[k]} is followed by {t[k + 1]}")
    contrast = s[0] - s[1]
    scores = contrast[:-1] - contrast[1:]
    frame = int(scores.argmax())
    return Grounding(float((t[frame] + t[frame + 1]) / 2), frame, scores)


def grounding_accuracy(
    predicted: Sequence[float],
    true: Sequence[float | Sequence[float]],
    thresholds: Sequence[float] = THRESHOLDS,
) -> dict[float, float]:
    """Share of boundaries found within some seconds, for each of several thresholds.

    acc(h) = mean[min_j |predicted - true_j| <= h].

    Args:
        predicted: Seconds, one a query.
        true: Seconds, one a query, or several where any of them will do.
        thresholds: Seconds, not negative.

    Returns:
        Threshold to share; the paper's average is their mean.

    Raises:
        ValueError: Lengths that differ or are 0; a query without a true time; a negative threshold.

    Numerics:
        A billionth of a second is added to each threshold, so that 2.1 - 2.0 counts as 0.1.

    Example:
        >>> grounding_accuracy([1.0, 5.0], [1.05, [2.0, 5.4]], [0.1, 0.5])
        {0.1: 0.5, 0.5: 1.0}

    Source:
        EqBen appendix A.6, table 12.
    """
    if len(predicted) != len(true) or not len(true):
        raise ValueError(f"{len(predicted)} predicted times for {len(true)} true ones")
    if any(not h >= 0 for h in thresholds):
        raise ValueError(f"thresholds = {list(thresholds)}: expected seconds of at least 0")
    errors = []
    refuse_masked(true, "true")
    guesses = as_array(predicted, "predicted").astype(np.float64)
    for k, (guess, truth) in enumerate(zip(guesses, true, strict=True)):
        several = np.atleast_1d(as_array(truth, f"true, query {k}").astype(np.float64))
        if not several.size:
            raise ValueError(f"query {k} has no true time")
        errors.append(float(np.abs(several - guess).min()))
    distances = np.array(errors)
    if not np.isfinite(distances).all():
        raise ValueError(f"query {int(np.argmin(np.isfinite(distances)))} holds a time that is not finite")
    return {float(h): float((distances <= h + 1e-9).mean()) for h in thresholds}
