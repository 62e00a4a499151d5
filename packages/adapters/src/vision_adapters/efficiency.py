"""Parameter counts and ELEVATER's performance-efficiency."""

from __future__ import annotations

import math

PIVOT = 1e8


def performance_efficiency(score: float, trainable: int) -> float:
    r"""A score discounted by its trainable parameters: $\mathrm{PE} = S\,e^{-\log_{10}(P / 10^8 + 1)}$.

    Args:
        score: S, 0 … 1 (or 0 … 100; PE keeps the unit).
        trainable: P >= 0, trained parameters (of all tasks together where S is a mean over tasks, as in the paper).

    Raises:
        ValueError: a negative count or a score that is not finite.

    Example:
        >>> performance_efficiency(0.5, 0)
        0.5

    Source:
        ELEVATER, section D.2. As printed it lacks the minus sign, which would reward trained parameters; with it the
        formula gives the values that the field reports.
    """
    if trainable < 0 or not math.isfinite(score):
        raise ValueError(f"expected a finite score and at least 0 parameters, got {score} and {trainable}")
    return score * math.exp(-math.log10(trainable / PIVOT + 1))
