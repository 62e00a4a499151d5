"""Near copies among the images of splits: groups across splits, what a score must be read with, and lists without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from gate_data.near import Likeness, are_known, near_copies
from gate_data.readers.source import Clip, Source, Stored, described

_UNASKED = 10_000
"""Images up to which they are compared where nobody asked for it."""


class HasSource(Protocol):
    """A sample of a list."""

    @property
    def source(self) -> Source | tuple[Source, ...]:
        """Its image, or several."""


Shown = TypeVar("Shown", bound=HasSource)


@dataclass(frozen=True)
class NearSplits:
    """Near copies among the images of splits.

    Args:
        groups: of each group, its images in order as split and source.
        compared: images that were compared.
        unreadable: those that cannot be read, or show one colour.
    """

    groups: tuple[tuple[tuple[str, Source], ...], ...]
    compared: int
    unreadable: tuple[Source, ...] = ()

    @property
    def crossing(self) -> list[tuple[tuple[str, Source], ...]]:
        """Groups with images of several splits."""
        return [group for group in self.groups if len({split for split, _ in group}) > 1]

    @property
    def copied(self) -> set[Source]:
        """Images to train on or to validate that are near copies of a test image."""
        tested = [group for group in self.groups if any(split == "test" for split, _ in group)]
        return {source for group in tested for split, source in group if split != "test"}

    @property
    def leaked(self) -> set[Source]:
        """Test images that are near copies of one to train on or to validate."""
        return {source for group in self.crossing for split, source in group if split == "test"}

    @property
    def sentence(self) -> str:
        """What a reader of the score must know; empty where no test image has a copy in another split."""
        if not self.leaked:
            return ""
        group = next(group for group in self.crossing if "test" in dict(group))
        shown = [next(source for split, source in group if (split == "test") is is_test) for is_test in (True, False)]
        count = len(self.leaked)
        are = "1 test image is a near copy" if count == 1 else f"{count:,} test images are near copies"
        return (
            f"{are} of others trained or validated on, such as {described(shown[0])} and {described(shown[1])}: "
            "--setting drop_near=true leaves those others out"
        )


def near_in_splits(
    splits: Mapping[str, Sequence[HasSource]],
    progress: Callable[[int, int], None] | None = None,
    likeness: Callable[[Sequence[Source]], Likeness] | None = None,
) -> NearSplits:
    """Find near copies among the still images of splits, each file once in each split.

    Args:
        splits: samples by ``"train"``, ``"validation"`` and ``"test"``.
        progress: given how many images are read, and of how many.
        likeness: of images by an encoder, see `near_copies`.
    """
    places = list(dict.fromkeys(_stills(splits)))
    sources = [source for _, source in places]
    copies = near_copies(sources, progress, likeness)
    groups = tuple(tuple(places[at] for at in group) for group in copies.groups)
    lacking = tuple(sources[at] for at in sorted((*copies.unreadable, *copies.flat)))
    return NearSplits(groups, copies.compared, lacking)


NEAR = "near copy in training"
"""Among a test split's columns: whether each sample's image is a near copy of one trained or validated on."""


def near_known(splits: Mapping[str, Sequence[HasSource]]) -> NearSplits | None:
    """Return near copies in sets that are small or were compared before; None of others, and of a single split."""
    places = list(dict.fromkeys(_stills(splits)))
    sources = [source for _, source in places]
    if len({split for split, _ in places}) < 2 or (len(sources) > _UNASKED and not are_known(sources)):
        return None
    return near_in_splits(splits)


def near_column(samples: Sequence[HasSource], copies: NearSplits) -> dict[str, tuple[str, ...]]:
    """Return which test samples have near copies elsewhere, as the column `NEAR`; empty if none has."""
    leaked = copies.leaked
    marks = tuple("no" if leaked.isdisjoint(_sources(sample)) else "yes" for sample in samples)
    return {NEAR: marks} if "yes" in marks else {}


DROPPED = "near copies of test images"
"""In the note of data from which they were left out."""


def without_near(splits: Mapping[str, Sequence[Shown]]) -> tuple[dict[str, Sequence[Shown]], str]:
    """Leave out samples to train on and to validate whose images are near copies of a test image; and say how many."""
    copied = near_in_splits(splits).copied
    lists: dict[str, Sequence[Shown]] = {}
    counts = []
    for name, samples in splits.items():
        lists[name] = [sample for sample in samples if name == "test" or copied.isdisjoint(_sources(sample))]
        if name != "test":
            counts.append(f"{len(samples) - len(lists[name]):,} of {name}")
    return lists, f"left out as {DROPPED}: {', '.join(counts)}"


def _sources(sample: HasSource) -> tuple[Source, ...]:
    sources: tuple[Source, ...] = sample.source if type(sample.source) is tuple else (sample.source,)  # type: ignore[assignment]  # a source alone may be a named tuple
    return sources


def _stills(splits: Mapping[str, Sequence[HasSource]]) -> Iterator[tuple[str, Source]]:
    """Split and source of every still image that lies in a file."""
    for name, samples in splits.items():
        for sample in samples:
            yield from ((name, source) for source in _sources(sample) if not isinstance(source, Clip | Stored))
