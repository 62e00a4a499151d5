"""Near copies: images that show the same, stored again, resized, cropped a little, mirrored, or brighter."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeVar

import numpy as np
from jaxtyping import Float, Int, UInt8
from PIL import Image

from gate_data.errors import DataError
from gate_data.pictures import readers
from gate_data.readers.decode import decode
from gate_data.readers.source import Clip, Source, Stored, described
from gate_data.remembered import known_contents, listing_mark, remember_contents

SIDE = 32
"""Of the grey image that is compared, in pixels."""
_READ = 128
"""Pixels that a JPEG file is at least decoded to."""
_LOW = 8
_CANDIDATE, _NEAREST = 0.8, 8
"""Cosine of low frequencies from which on two images are compared closely, with so many of the nearest at most."""
_WHOLE, _FINE = 0.93, 0.75
"""Correlations of pixels, and of what is finer than a blur of 5 pixels, from which on two images are copies."""
_FLAT = 4.0
"""Standard deviation of grey values up to which an image shows too little to be compared."""
_CELLS = SIDE * SIDE // 16
"""Digests of 16 bytes in whose place a sketch is remembered."""
_UNASKED = 10_000
"""Images up to which they are compared where nobody asked for it."""
_ROWS, _PAIRS = 2048, 4096


class HasSource(Protocol):
    """A sample of a list."""

    @property
    def source(self) -> Source | tuple[Source, ...]:
        """Its image, or several."""


Shown = TypeVar("Shown", bound=HasSource)
Sketches = UInt8[np.ndarray, "n 32 32"]


@dataclass(frozen=True)
class NearCopies:
    """Groups of images that are near copies of one another.

    Args:
        groups: positions of each group's images, in order; groups in the order of their first image.
        compared: images that were compared.
        unreadable: positions of those that cannot be read.
        flat: positions of those that show one colour, which are not compared.
    """

    groups: tuple[tuple[int, ...], ...]
    compared: int
    unreadable: tuple[int, ...] = ()
    flat: tuple[int, ...] = ()


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
    splits: Mapping[str, Sequence[HasSource]], progress: Callable[[int, int], None] | None = None
) -> NearSplits:
    """Find near copies among the still images of splits, each file once in each split.

    Args:
        splits: samples by ``"train"``, ``"validation"`` and ``"test"``.
        progress: given how many images are read, and of how many.
    """
    places = list(dict.fromkeys(_stills(splits)))
    sources = [source for _, source in places]
    copies = near_copies(sources, progress)
    groups = tuple(tuple(places[at] for at in group) for group in copies.groups)
    lacking = tuple(sources[at] for at in sorted((*copies.unreadable, *copies.flat)))
    return NearSplits(groups, copies.compared, lacking)


def near_note(splits: Mapping[str, Sequence[HasSource]]) -> str:
    """Say which test images are near copies of others, of sets that are small or were compared before."""
    places = list(dict.fromkeys(_stills(splits)))
    sources = [source for _, source in places]
    if len(sources) > _UNASKED and known_contents(_mark(sources), len(sources) * _CELLS) is None:
        return ""
    return near_in_splits(splits).sentence if len({split for split, _ in places}) > 1 else ""


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


def near_copies(sources: Sequence[Source], progress: Callable[[int, int], None] | None = None) -> NearCopies:
    """Find images that are near copies: JPEG again, resized, cropped by up to 10 %, mirrored, brighter or darker.

    Each becomes grey, 32 x 32. Images whose low frequencies (those of a 64-bit perceptual hash, unrounded) are alike,
    mirrored or not, are compared closely: pixels, and what is finer than a blur, have to correlate at one of 19 crops.

    Args:
        sources: still images.
        progress: given how many of them are read, and of how many.

    Returns:
        Groups; what cannot be read or shows one colour is named, and is in none.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> folder = Path(tempfile.mkdtemp())
        >>> pixels = np.random.default_rng(0).integers(0, 255, (2, 12, 16, 3), np.uint8).repeat(8, 1).repeat(8, 2)
        >>> for name, shown in {"a.png": pixels[0], "b.png": pixels[1], "c.jpg": pixels[0, :, ::-1]}.items():
        ...     Image.fromarray(shown).save(folder / name)
        >>> near_copies([str(folder / name) for name in ("a.png", "b.png", "c.jpg")]).groups
        ((0, 2),)
    """
    mark = _mark(sources)
    known = known_contents(mark, len(sources) * _CELLS)
    if known is None:
        sketches, unreadable = _sketches(sources, progress)
        if not unreadable:
            remember_contents(mark, [sketches.tobytes()])
    else:
        sketches, unreadable = np.frombuffer(b"".join(known), np.uint8).reshape(-1, SIDE, SIDE), []
    lacking = set(unreadable)
    flat = [int(at) for at in np.flatnonzero(sketches.std(axis=(1, 2)) <= _FLAT) if int(at) not in lacking]
    return NearCopies(groups_of(sketches), len(sources) - len(unreadable) - len(flat), tuple(unreadable), tuple(flat))


def _mark(sources: Sequence[Source]) -> bytes | None:
    """What sketches are remembered under: the files' names, sizes and times."""
    listing = listing_mark((source,) for source in sources)
    return hashlib.blake2b(b"sketches/1" + listing.digest, digest_size=16).digest() if listing.settled else None


def _sketches(sources: Sequence[Source], progress: Callable[[int, int], None] | None) -> tuple[Sketches, list[int]]:
    """Sketches, black where an image cannot be read, and the positions of those."""
    sketches = np.zeros((len(sources), SIDE, SIDE), np.uint8)
    unreadable = []
    for at, sketch in enumerate(_sketched(sources)):
        if sketch is None:
            unreadable.append(at)
        else:
            sketches[at] = sketch
        if progress is not None:
            progress(at + 1, len(sources))
    return sketches, unreadable


def _sketched(sources: Sequence[Source]) -> Iterator[np.ndarray | None]:
    remaining = iter(sources)
    with ThreadPoolExecutor(readers(), "gate-data-near") as pool:
        while block := list(islice(remaining, 1024)):
            yield from pool.map(_sketch, block)


def _sketch(source: Source) -> np.ndarray | None:
    try:
        return sketch_of(decode(source, _READ))
    except DataError:
        return None


def sketch_of(image: Image.Image) -> UInt8[np.ndarray, "32 32"]:
    """Return an image grey, 32 x 32, antialiased."""
    return np.asarray(image.convert("L").resize((SIDE, SIDE), Image.Resampling.BILINEAR))


def groups_of(sketches: Sketches) -> tuple[tuple[int, ...], ...]:
    """Return groups of positions of sketches that are near copies."""
    parent = list(range(len(sketches)))

    def root(at: int) -> int:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    shown = np.flatnonzero(sketches.std(axis=(1, 2)) > _FLAT)
    pixels = sketches[shown].astype(np.float32)
    for is_mirrored in (False, True):
        pairs = _candidates(pixels, mirrored=is_mirrored)
        for first in range(0, len(pairs), _PAIRS):
            part = pairs[first : first + _PAIRS]
            left, right = pixels[part[:, 0]], pixels[part[:, 1]]
            for earlier, later in part[_alike(left, right[:, :, ::-1] if is_mirrored else right)]:
                low, high = sorted((root(int(shown[earlier])), root(int(shown[later]))))
                parent[high] = low
    members: dict[int, list[int]] = defaultdict(list)
    for at in range(len(sketches)):
        members[root(at)].append(at)
    return tuple(tuple(group) for group in members.values() if len(group) > 1)


def _low_frequencies(pixels: Float[np.ndarray, "n 32 32"]) -> Float[np.ndarray, "n 64"]:
    """The lowest 8 x 8 of the cosine transform but the mean, of length 1."""
    k, n = np.arange(_LOW)[:, None], np.arange(SIDE)[None, :]
    cosines = np.cos(np.pi * k * (2 * n + 1) / (2 * SIDE)).astype(np.float32)
    low = (cosines @ pixels @ cosines.T).reshape(len(pixels), _LOW * _LOW)
    low[:, 0] = 0
    length: np.ndarray = low / np.linalg.norm(low, axis=1, keepdims=True).clip(1e-6)
    return length


def _candidates(pixels: Float[np.ndarray, "n 32 32"], *, mirrored: bool) -> Int[np.ndarray, "p 2"]:
    """Pairs of images whose low frequencies are alike, the later of a pair second; a mirror turns odd ones' signs."""
    low = _low_frequencies(pixels)
    signs = np.tile(np.where(np.arange(_LOW) % 2, -1, 1), _LOW).astype(np.float32) if mirrored else 1.0
    pairs: list[np.ndarray] = [np.zeros((0, 2), np.int64)]
    for first in range(0, len(low), _ROWS):
        rows = low[first : first + _ROWS] * signs
        blocks: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for start in range(first, len(low), _ROWS):
            cosines = rows @ low[start : start + _ROWS].T
            if start == first:
                cosines[np.tril_indices(len(cosines))] = -1
            at, columns = np.nonzero(cosines >= _CANDIDATE)
            blocks.append(_nearest(at, columns + start, cosines[at, columns]))
        at, columns, _ = _nearest(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))
        pairs.append(np.stack([at + first, columns], axis=1))
    return np.concatenate(pairs)


def _nearest(rows: np.ndarray, columns: np.ndarray, cosines: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the pairs of each row, those of the highest cosines."""
    order = np.lexsort((-cosines, rows))
    rows, columns, cosines = rows[order], columns[order], cosines[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
    few = rank < _NEAREST
    return rows[few], columns[few], cosines[few]


def _alike(left: Float[np.ndarray, "p 32 32"], right: Float[np.ndarray, "p 32 32"]) -> np.ndarray:
    """Whether pairs correlate, whole or where one is cropped."""
    alike = np.zeros(len(left), bool)
    coarse = [_unit(side.reshape(-1, SIDE // 2, 2, SIDE // 2, 2).mean(axis=(2, 4)).reshape(len(side), -1))
              for side in (left, right)]  # fmt: skip
    for (down, across), operator in zip(_CROPS, _COARSE, strict=True):
        for which, (cut, whole) in enumerate(((left, right), (right, left))):
            cropped = _unit(coarse[which] @ operator.T)
            close = np.flatnonzero(~alike & ((cropped * coarse[1 - which]).sum(axis=1) >= _WHOLE))
            fine = [_finer(down @ cut[close] @ across.T), _finer(whole[close])]
            first, second = (_unit(side.reshape(-1, (SIDE - 4) ** 2)) for side in fine)
            alike[close[(first * second).sum(axis=1) >= _FINE]] = True
    return alike


def _unit(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Rows without their means, of length 1, so that a product is a correlation."""
    rows = rows - rows.mean(axis=1, keepdims=True)
    unit: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-6)
    return unit


def _finer(pixels: Float[np.ndarray, "p 32 32"]) -> Float[np.ndarray, "p 28 28"]:
    """What is left of pixels without the mean of the 5 x 5 about each, at those that have all of these."""
    sums = pixels.cumsum(axis=1).cumsum(axis=2)
    sums = np.pad(sums, ((0, 0), (1, 0), (1, 0)))
    blurred = (sums[:, 5:, 5:] - sums[:, :-5, 5:] - sums[:, 5:, :-5] + sums[:, :-5, :-5]) / 25
    fine: np.ndarray = pixels[:, 2:-2, 2:-2] - blurred
    return fine


def _crop(start: float, length: float, side: int = SIDE) -> Float[np.ndarray, "s s"]:
    """The matrix that takes a part of a row of pixels to the whole row's length, linearly."""
    at = (start + length * (np.arange(side) + 0.5) / side) * side - 0.5
    at = at.clip(0, side - 1)
    below = np.minimum(at.astype(int), side - 2)
    matrix = np.zeros((side, side), np.float32)
    matrix[np.arange(side), below] = 1 - (at - below)
    matrix[np.arange(side), below + 1] = at - below
    return matrix


_PLACES = [(0.0, 0.0, 1.0)] + [
    (down * (1 - length), across * (1 - length), length)
    for length in (0.95, 0.9)
    for down in (0, 0.5, 1)
    for across in (0, 0.5, 1)
]
"""Crops: the first row and the first column, and the share of the side."""
_CROPS = [(_crop(down, length), _crop(across, length)) for down, across, length in _PLACES]
_COARSE = [
    np.kron(_crop(down, length, SIDE // 2), _crop(across, length, SIDE // 2)) for down, across, length in _PLACES
]
