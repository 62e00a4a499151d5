"""What a source of data is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gate_data.cards import Sheet

SplitName = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class DataRequest:
    """What a source is asked for.

    Args:
        root: the folder of original files, for ``local`` sources.
        limit: at most so many samples in each split, or None.
        size: side in pixels at which images are read from files; those in memory keep their own.
        skip_unreadable: look at every picture of lists of files, and leave out those that cannot be read.
        sheet: what was published of the data set, which the data's note tells apart from what is there; or None.
    """

    root: Path | None = None
    limit: int | None = None
    size: int = 224
    skip_unreadable: bool = False
    sheet: Sheet | None = None

    def cap(self, count: int) -> int:
        """How many of ``count`` samples to make."""
        return count if self.limit is None else min(count, self.limit)

    def compared(self, note: str, train: int, test: int, classes: int = 0) -> str:
        """A note, and what of the samples that are there differs from what was published."""
        differs = "" if self.sheet is None else self.sheet.differs(train, test, classes)
        return "; ".join(filter(None, [note, differs]))
