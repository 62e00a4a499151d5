"""Three splits of images and targets, the form in which every source hands over its data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol

from jaxtyping import Int, Shaped, UInt8
from typing_extensions import TypeVar

from gate_data.errors import DataError
from gate_data.pictures import Pictures
from gate_data.readers.source import name_bytes

if TYPE_CHECKING:  # whoever only lists files does without torch
    from torch import Tensor


class Targets(Protocol):
    """Targets that are no tensor: `gate_data.ragged.Ragged` is one, for boxes with labels or several answers."""

    def __len__(self) -> int:
        """The number of samples."""

    def take(self, index: Any, /) -> Targets:
        """Those of the samples at these positions."""

    def note_in(self, digest: hashlib._Hash, /) -> None:
        """Add all values to a digest."""

    def collate(self, index: Any, /) -> Any:
        """Those of the samples at these positions, as a loss takes them."""


Kind = TypeVar("Kind", bound="Tensor | Targets", default="Tensor")


@dataclass(frozen=True)
class Split(Generic[Kind]):
    """Samples of one split.

    Args:
        images: square images, ``uint8``, in memory or read from their files at each slice; videos have a frame axis,
            ``[n, f, 3, s, s]``, and pairs of images likewise.
        targets: class indices ``[n]``, values ``[n]``, class maps ``[n, h, w]``, in which -100 counts nowhere, or
            `Targets`.
        texts: where the task asks or compares them, one per sample, or equally many of each, one after another.
        groups: which samples belong together (slices of a volume), or None.
        columns: what is known of each sample besides, such as its camera, by name.

    Raises:
        DataError: images, targets, texts and groups are not of equally many samples; the message says how many.

    Example:
        >>> import torch
        >>> split = Split(torch.zeros(3, 3, 2, 2, dtype=torch.uint8), torch.tensor([5, 6, 7]))
        >>> len(split), split.limited(2).targets.tolist()
        (3, [5, 6])
    """

    images: UInt8[Tensor, "n *frames 3 s s"] | Pictures
    targets: Kind
    texts: tuple[str, ...] | None = None
    groups: Shaped[Tensor, " n"] | None = None
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that all parts are of the same samples."""
        count, texts = len(self.images), self.texts or ()
        counts = {"targets": len(self.targets)}
        if self.groups is not None:
            counts["groups"] = len(self.groups)
        counts |= {f"values of {name}": len(values) for name, values in self.columns.items()}
        for name, length in counts.items():
            if length != count:
                raise DataError(f"a split has {count} images and {length} {name}; expected as many")
        if texts and (count == 0 or len(texts) % count):
            raise DataError(f"a split has {count} images and {len(texts)} texts; expected as many, or a multiple")

    def __len__(self) -> int:
        return len(self.images)

    def take(self, index: Int[Tensor, " k"]) -> Split[Kind]:
        """The samples at these positions, in this order; images in files are not read.

        Example:
            >>> import torch
            >>> split = Split(torch.zeros(3, 3, 2, 2, dtype=torch.uint8), torch.tensor([5, 6, 7]), ("a", "b", "c"))
            >>> split.take(torch.tensor([2, 0])).texts
            ('c', 'a')
        """
        import torch

        targets: Any = self.targets
        taken: Any = targets[index] if isinstance(targets, torch.Tensor) else targets.take(index.numpy())
        texts = self.texts
        if texts:
            per_sample = len(texts) // len(self)
            texts = tuple(texts[per_sample * at + offset] for at in index.tolist() for offset in range(per_sample))
        return Split(
            self.images.take(index.tolist()) if isinstance(self.images, Pictures) else self.images[index],
            taken,
            texts,
            None if self.groups is None else self.groups[index],
            {name: tuple(values[at] for at in index.tolist()) for name, values in self.columns.items()},
        )

    def limited(self, count: int | None) -> Split[Kind]:
        """The first samples; whole groups where samples belong together."""
        if count is None or count >= len(self):
            return self
        if count < 1:
            raise DataError(f"limit must be at least 1, not {count}")
        import torch

        if self.groups is not None:
            first = torch.unique(self.groups[:count])
            count = int(torch.isin(self.groups, first).sum())
        return self.take(torch.arange(count))

    def note_in(self, digest: hashlib._Hash) -> None:
        """Add every image, target and text to a digest."""
        import torch

        if isinstance(self.images, Pictures):
            self.images.note_in(digest)
        else:
            digest.update(self.images.contiguous().numpy().data)
        if isinstance(self.targets, torch.Tensor):
            digest.update(self.targets.contiguous().numpy().data)
        else:
            self.targets.note_in(digest)
        digest.update(name_bytes("\n".join(self.texts or ())))


@dataclass(frozen=True)
class Data(Generic[Kind]):
    """A data set as a benchmark uses it.

    Args:
        train: what heads are fitted on.
        validation: what chooses among them.
        test: what is scored, once.
        classes: names of classes or answers, in the order of their indices; empty for regression.
        note: anything a reader of the score must know, e.g. "synthetic stand-in".

    Example:
        >>> import torch
        >>> split = Split(torch.zeros(3, 3, 2, 2, dtype=torch.uint8), torch.tensor([0, 1, 1]))
        >>> len(Data(split, split, split, ("cat", "dog")).limited(2).train)
        2
    """

    train: Split[Kind]
    validation: Split[Kind]
    test: Split[Kind]
    classes: tuple[str, ...]
    note: str = ""

    def digest(self) -> str:
        """SHA-256 over every image, target and text: two runs with one digest saw the same data.

        Of images that stay in their files, every byte of the files and their folders, names and sizes stand for the
        pixels. What files hold is remembered in the user's cache folder while their sizes, times and inodes stay.
        """
        digest = hashlib.sha256()
        for split in (self.train, self.validation, self.test):
            split.note_in(digest)
        return digest.hexdigest()

    def limited(self, limit: int | None) -> Data[Kind]:
        """The same with at most ``limit`` samples in each split."""
        train, validation, test = (split.limited(limit) for split in (self.train, self.validation, self.test))
        return Data(train, validation, test, self.classes, self.note)


def as_targets(values: Sequence[int]) -> Tensor:
    """Class indices as a tensor."""
    import torch

    return torch.tensor(list(values), dtype=torch.long)
