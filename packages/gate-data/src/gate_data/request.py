"""What a source of data is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gate_data.errors import UsageError

if TYPE_CHECKING:
    from gate_data.cards import Sheet

Size = int | tuple[int, int]
"""Pixels of a square's side; or height and width, where they differ."""
SplitName = Literal["train", "validation", "test"]


def size_of(size: object) -> Size:
    """A size as it is held, from a whole number or two: of a square, its side alone."""
    numbers: list[Any] = list(size) if isinstance(size, list | tuple) else [size, size]
    if len(numbers) != 2 or not all(isinstance(number, int) and number > 0 for number in numbers):
        raise UsageError(f"expected the side of a square in pixels, or its height and width, not {size!r}")
    high, wide = map(int, numbers)
    return high if high == wide else (high, wide)


def height_width(side: Size) -> tuple[int, int]:
    """Both sides in pixels."""
    return (side, side) if isinstance(side, int) else side


@dataclass(frozen=True)
class DataRequest:
    """What a source is asked for.

    Args:
        root: the folder of original files, for ``local`` sources.
        limit: at most so many samples in each split, or None.
        size: side, or height and width, in pixels at which images are read from files; those in memory keep their own.
        skip_unreadable: look at every image of lists of files, and leave out those that cannot be read.
        drop_near: leave out what is trained or validated on and is a near copy of a test image, see `gate_data.near`.
        note_near: name test images that are near copies of others in the data's note; every image is read for it.
        sheet: what was published of the data set, which the data's note tells apart from what is there; or None.
        seed: of a draw that the data set's protocol has, such as CoOp's few images of each class.
    """

    root: Path | None = None
    limit: int | None = None
    size: Size = 224
    skip_unreadable: bool = False
    sheet: Sheet | None = None
    seed: int = 0
    drop_near: bool = False
    note_near: bool = False

    def cap(self, count: int) -> int:
        """How many of ``count`` samples to make."""
        return count if self.limit is None else min(count, self.limit)

    def compared(self, note: str, train: int, test: int, classes: int = 0) -> str:
        """A note, and what of the samples that are there differs from what was published."""
        differs = "" if self.sheet is None else self.sheet.differs(train, test, classes)
        return "; ".join(filter(None, [note, differs]))
