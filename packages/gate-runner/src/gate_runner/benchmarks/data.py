"""Three splits of images and targets, the form in which every source hands over its data."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Shaped, UInt8
from torch import Tensor

from gate_runner.benchmarks.pictures import Pictures
from gate_runner.errors import DataError


@dataclass(frozen=True)
class Split:
    """Samples of one split.

    Args:
        images: square images, ``uint8``, in memory or read from their files at each slice; videos have a frame axis,
            ``[n, f, 3, s, s]``.
        targets: class indices ``[n]``, values ``[n]``, or class maps ``[n, h, w]``, in which -100 counts nowhere.
        questions: a text per sample, where the task asks one.
        groups: which samples belong together (slices of a volume), or None.
    """

    images: UInt8[Tensor, "n *frames 3 s s"] | Pictures
    targets: Shaped[Tensor, n * places]
    questions: tuple[str, ...] | None = None
    groups: Shaped[Tensor, " n"] | None = None

    def __len__(self) -> int:
        return len(self.images)

    def take(self, count: int | None) -> Split:
        """The first samples; whole groups where samples belong together."""
        if count is None or count >= len(self):
            return self
        if count < 1:
            raise DataError(f"--limit must be at least 1, not {count}")
        if self.groups is not None:
            first = torch.unique(self.groups[:count])
            count = int(torch.isin(self.groups, first).sum())
        return Split(
            self.images.first(count) if isinstance(self.images, Pictures) else self.images[:count],
            self.targets[:count],
            None if self.questions is None else self.questions[:count],
            None if self.groups is None else self.groups[:count],
        )


@dataclass(frozen=True)
class Data:
    """A data set as a benchmark uses it.

    Args:
        train: what heads are fitted on.
        validation: what chooses among them.
        test: what is scored, once.
        classes: names of classes or answers, in the order of their indices; empty for regression.
        note: anything a reader of the score must know, e.g. "synthetic stand-in".
    """

    train: Split
    validation: Split
    test: Split
    classes: tuple[str, ...]
    note: str = ""

    def digest(self) -> str:
        """SHA-256 over every image, target and question: two runs with one digest saw the same data.

        Of images that stay in their files, the files' folders, names and sizes stand for the pixels.
        """
        digest = hashlib.sha256()
        for split in (self.train, self.validation, self.test):
            if isinstance(split.images, Pictures):
                split.images.note_in(digest)
            else:
                digest.update(split.images.contiguous().numpy().data)
            digest.update(split.targets.contiguous().numpy().data)
            digest.update("\n".join(split.questions or ()).encode())
        return digest.hexdigest()

    def limited(self, limit: int | None) -> Data:
        """The same with at most ``limit`` samples in each split."""
        return Data(self.train.take(limit), self.validation.take(limit), self.test.take(limit), self.classes, self.note)


def as_targets(values: Sequence[int]) -> Tensor:
    """Class indices as a tensor."""
    return torch.tensor(list(values), dtype=torch.long)
