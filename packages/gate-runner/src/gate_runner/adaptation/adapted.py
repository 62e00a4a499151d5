"""What adapting an encoder is given, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gate_runner.adaptation.kept import Kept


@dataclass(frozen=True)
class Adapted:
    """What a method reached on the test images.

    Args:
        method: its name.
        metric: that was taken.
        value: on the test images.
        low: lower end of its 95 % interval.
        high: upper end.
        train: images that were trained on.
        test: images that were scored.
        classes: their names.
        details: what the method says of itself.
        skipped: files that could not be read, left out on request.
        shared: test images whose pixels are among the training images', with the file that they equal.
        kept: what `gate_runner.adaptation.save_head` writes, or None where the method leaves nothing.

    Example:
        >>> found = Adapted("zero-shot", "accuracy", 0.8, 0.7, 0.9, train=0, test=60, classes=("cat", "dog"))
        >>> found.to_mapping()["value"]
        0.8
    """

    method: str
    metric: str
    value: float
    low: float
    high: float
    train: int
    test: int
    classes: tuple[str, ...]
    details: Mapping[str, Any] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    shared: tuple[tuple[str, str], ...] = ()
    kept: Kept | None = field(default=None, repr=False, compare=False)

    def to_mapping(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            **{name: getattr(self, name) for name in ("method", "metric", "value", "low", "high")},
            "images": self.train,
            "test_images": self.test,
            **self.details,
            "classes": list(self.classes),
            "skipped": list(self.skipped),
            "shared": [list(pair) for pair in self.shared],
        }
