"""What several seeds of the heads add to the uncertainty of a difference."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

_TWO_SEEDS = 0.25
"""The factor c of `with_seeds` where a spread is known from two values only; from three on it is 1."""


def with_seeds(by_seed: Sequence[float], standard_error: float) -> tuple[float, float]:
    r"""Standard error of a mean over seeds that holds samples and seeds, and its degrees of freedom.

    With S seeds, $s$ the standard deviation of the S differences and $e$ the bootstrap's standard error over samples,
    the error is $\sqrt{e^2 + s^2 / S}$. Where the seeds say more than the samples, $s^2 / S > c \, e^2$, it has
    $\nu = S - 1$ degrees of freedom; else $\nu = (S - 1) (e^2 + s^2 / S) / (s^2 / S)$.

    Args:
        by_seed: the difference with each seed, at least two.
        standard_error: of their mean, over samples.

    Returns:
        The standard error and the degrees of freedom, infinite where the seeds do not differ.

    Numerics:
        The differences of seeds vary with the samples, too: that part is counted twice, which errs on the safe side.
        Welch and Satterthwaite's degrees of freedom, $(S - 1) (e^2 + s^2/S)^2 / (s^2/S)^2$, call 7 % of equal encoders
        different where three seeds vary much, since s is itself uncertain; ours at most 5 %, and up to 7 % with two.

    Example:
        >>> with_seeds([1.0, 3.0], 0.0)
        (1.0, 1.0)
    """
    between = float(np.var(by_seed, ddof=1)) / len(by_seed)
    total = standard_error**2 + between
    if between == 0:
        return standard_error, math.inf
    few = len(by_seed) - 1
    telling = between > (_TWO_SEEDS if few == 1 else 1.0) * standard_error**2
    return math.sqrt(total), float(few) if telling else few * total / between


def two_sided(statistic: float, freedom: float) -> float:
    """Probability that Student's t is at least as far from 0.

    Args:
        statistic: t.
        freedom: degrees of freedom, at least 1; may be infinite.

    Example:
        >>> round(two_sided(12.706, 1), 4), round(two_sided(4.303, 2), 4), round(two_sided(1.96, math.inf), 4)
        (0.05, 0.05, 0.05)
    """
    from scipy.stats import t

    return float(2 * t.sf(abs(statistic), freedom))


def critical(level: float, freedom: float) -> float:
    """The t that `two_sided` gives the probability 1 - level.

    Example:
        >>> round(critical(0.95, 2), 2)
        4.3
    """
    from scipy.stats import t

    return float(t.isf((1 - level) / 2, freedom))
