"""Near copies: images that show the same, stored again, resized, cropped a little, mirrored, or brighter."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

import numpy as np
from jaxtyping import Float, Int, UInt8
from PIL import Image

from gate_data.errors import DataError
from gate_data.pictures import readers
from gate_data.readers.decode import decode
from gate_data.readers.source import Source
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
_ROWS, _PAIRS = 2048, 4096

Sketches = UInt8[np.ndarray, "n 32 32"]


@dataclass(frozen=True)
class Likeness:
    """How alike images are by an encoder, in place of the fine detail that small or blurred images lack.

    Args:
        features: of each image, of length 1.
        threshold: cosine from which on two images are alike.
    """

    features: Float[np.ndarray, "n d"]
    threshold: float


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


def near_copies(
    sources: Sequence[Source],
    progress: Callable[[int, int], None] | None = None,
    likeness: Callable[[Sequence[Source]], Likeness] | None = None,
) -> NearCopies:
    """Find images that are near copies: JPEG again, resized, cropped by up to 10 %, mirrored, brighter or darker.

    Each becomes grey, 32 x 32. Images whose low frequencies (those of a 64-bit perceptual hash, unrounded) are alike,
    mirrored or not, are compared closely: pixels, and what is finer than a blur, have to correlate at one of 19 crops.

    Args:
        sources: still images.
        progress: given how many of them are read, and of how many.
        likeness: of images by an encoder; those that are alike by it need no fine detail in common.

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
    alike = None
    if likeness is not None:
        hidden = lacking.union(flat)
        alike = likeness([source for at, source in enumerate(sources) if at not in hidden])
    groups = groups_of(sketches, alike) if alike is not None else _groups_once(sketches)
    return NearCopies(groups, len(sources) - len(unreadable) - len(flat), tuple(unreadable), tuple(flat))


def are_known(sources: Sequence[Source]) -> bool:
    """Whether the sketches of these images are remembered, so that comparing them opens no file."""
    return known_contents(_mark(sources), len(sources) * _CELLS) is not None


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


def groups_of(sketches: Sketches, likeness: Likeness | None = None) -> tuple[tuple[int, ...], ...]:
    """Return groups of positions of sketches that are near copies; ``likeness`` is of those that are not flat."""
    parent = list(range(len(sketches)))

    def root(at: int) -> int:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    def join(earlier: int, later: int) -> None:
        low, high = sorted((root(int(shown[earlier])), root(int(shown[later]))))
        parent[high] = low

    shown = np.flatnonzero(sketches.std(axis=(1, 2)) > _FLAT)
    pixels = sketches[shown].astype(np.float32)
    pairs = [copies_by_pixels(pixels)] + ([] if likeness is None else [copies_by_likeness(pixels, likeness)])
    for earlier, later in np.concatenate(pairs):
        join(earlier, later)
    members: dict[int, list[int]] = defaultdict(list)
    for at in range(len(sketches)):
        members[root(at)].append(at)
    return tuple(tuple(group) for group in members.values() if len(group) > 1)


_GROUPS: dict[bytes, tuple[tuple[int, ...], ...]] = {}
_KEPT_GROUPS = 8
"""Sets whose groups this process keeps: each unit of a sweep compares the same images."""


def _groups_once(sketches: Sketches) -> tuple[tuple[int, ...], ...]:
    """Return the groups by pixels, which are computed once for the same sketches."""
    mark = hashlib.blake2b(np.ascontiguousarray(sketches).data, digest_size=16).digest()
    if mark not in _GROUPS:
        while len(_GROUPS) >= _KEPT_GROUPS:
            _GROUPS.pop(next(iter(_GROUPS)), None)
        _GROUPS[mark] = groups_of(sketches)
    return _GROUPS[mark]


def copies_by_pixels(pixels: Float[np.ndarray, "n 32 32"]) -> Int[np.ndarray, "p 2"]:
    """Return pairs of sketches that correlate in low frequencies and in fine detail, mirrored or not."""
    pairs: list[np.ndarray] = [np.zeros((0, 2), np.int64)]
    for is_mirrored in (False, True):
        for part, left, right in _parts(pixels, _candidates(pixels, mirrored=is_mirrored)):
            pairs.append(part[_alike(left, right[:, :, ::-1] if is_mirrored else right)])
    return np.concatenate(pairs)


def copies_by_likeness(pixels: Float[np.ndarray, "n 32 32"], likeness: Likeness) -> Int[np.ndarray, "p 2"]:
    """Return pairs of sketches that are alike by an encoder and correlate as a whole, mirrored or not."""
    pairs: list[np.ndarray] = [np.zeros((0, 2), np.int64)]
    nearest = _nearest_pairs(likeness.features, likeness.features, likeness.threshold)
    for part, left, right in _parts(pixels, nearest):
        pairs.append(part[_alike(left, right, fine=False) | _alike(left, right[:, :, ::-1], fine=False)])
    return np.concatenate(pairs)


def _parts(
    pixels: Float[np.ndarray, "n 32 32"], pairs: Int[np.ndarray, "p 2"]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Some pairs at a time, with their sketches."""
    for first in range(0, len(pairs), _PAIRS):
        part = pairs[first : first + _PAIRS]
        yield part, pixels[part[:, 0]], pixels[part[:, 1]]


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
    return _nearest_pairs(low, low * signs, _CANDIDATE)


def _nearest_pairs(
    low: Float[np.ndarray, "n d"], turned: Float[np.ndarray, "n d"], least: float
) -> Int[np.ndarray, "p 2"]:
    """Pairs whose cosine is at least so large, of each row the nearest few among those after it."""
    pairs: list[np.ndarray] = [np.zeros((0, 2), np.int64)]
    for first in range(0, len(low), _ROWS):
        rows = turned[first : first + _ROWS]
        blocks: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for start in range(first, len(low), _ROWS):
            cosines = rows @ low[start : start + _ROWS].T
            if start == first:
                cosines[np.tril_indices(len(cosines))] = -1
            at, columns = np.nonzero(cosines >= least)
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


def _alike(left: Float[np.ndarray, "p 32 32"], right: Float[np.ndarray, "p 32 32"], *, fine: bool = True) -> np.ndarray:
    """Whether pairs correlate, whole or where one is cropped; in fine detail, too, or not."""
    alike = np.zeros(len(left), bool)
    coarse = [_unit(side.reshape(-1, SIDE // 2, 2, SIDE // 2, 2).mean(axis=(2, 4)).reshape(len(side), -1))
              for side in (left, right)]  # fmt: skip
    for (down, across), operator in zip(_CROPS, _COARSE, strict=True):
        for which, (cut, whole) in enumerate(((left, right), (right, left))):
            cropped = _unit(coarse[which] @ operator.T)
            close = np.flatnonzero(~alike & ((cropped * coarse[1 - which]).sum(axis=1) >= _WHOLE))
            if not fine:
                alike[close] = True
                continue
            detail = [_finer(down @ cut[close] @ across.T), _finer(whole[close])]
            first, second = (_unit(side.reshape(-1, (SIDE - 4) ** 2)) for side in detail)
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
