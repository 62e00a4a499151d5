"""A metric's value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    """A metric's value on the test split.

    Args:
        metric: its name.
        direction: ``"higher"`` or ``"lower"`` is better.
        value: the estimate.
        low: lower end of the 95 % bootstrap interval over test samples; NaN if an imported score has none.
        high: upper end; NaN likewise.
        chance: what the best prediction scores that never looks at the image; NaN if an imported score has none.

    Example:
        >>> Score("acc@1", "higher", 0.8, 0.7, 0.9, 0.1).chance
        0.1
    """

    metric: str
    direction: str
    value: float
    low: float
    high: float
    chance: float
