"""Images with their captions, true and false, as a training takes them: divided, checked, known by what they hold."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_data.errors import DataError
from gate_data.pictures import Pictures
from gate_data.readers import held_out, table
from wary_files.text import number_of

if TYPE_CHECKING:
    from torch import Tensor

    from gate_data.own import OwnBenchmark
    from gate_data.request import Size

Texts = tuple[str, ...]

NEGATIVES = ("negative", "negatives", "hard_negative", "hard_negatives", "false_caption", "foil")
"""Columns of a table that hold false captions of its row's image; several stand in a list, or with | between."""
_SHARE = 0.1
_SHOWN = 3


@dataclass(frozen=True, eq=False)
class CaptionedSplit:
    """Samples of one image, or of the two of a known pair, with their captions.

    Args:
        pictures: images of all samples, of files or ``[n u, 3, s, s]``; ``u`` images a sample, one after another.
        captions: for each sample its forms, each of ``u`` texts; a training draws one form whenever a sample is seen.
        negatives: for each sample captions that are false of its (first) image; empty if no sample has any.

    Example:
        >>> import torch
        >>> split = CaptionedSplit(torch.zeros(2, 3, 4, 4), [[("a cat",), ("one cat",)], [("a dog",)]])
        >>> len(split), split.pictures_each, split.take([1]).captions
        (2, 1, [[('a dog',)]])
    """

    pictures: Pictures | Tensor
    captions: Sequence[Sequence[Texts]]
    negatives: Sequence[Texts] = ()

    def __len__(self) -> int:
        return len(self.captions)

    @property
    def pictures_each(self) -> int:
        """Number of images of a sample, ``u``."""
        return len(self.captions[0][0])

    def take(self, rows: Sequence[int]) -> CaptionedSplit:
        """Return the samples at these positions; no image is read."""
        import torch

        index = torch.tensor(list(rows), dtype=torch.long)
        pictures = self.pictures[index] if isinstance(self.pictures, torch.Tensor) else self.pictures.take(list(rows))
        negatives = [self.negatives[row] for row in rows] if self.negatives else ()
        return CaptionedSplit(pictures, [self.captions[row] for row in rows], negatives)

    def at_size(self, side: Size) -> CaptionedSplit:
        """Return the same with images of files read at another size."""
        import torch

        if isinstance(self.pictures, torch.Tensor):
            return self
        return replace(self, pictures=replace(self.pictures, side=side))


@dataclass(frozen=True, eq=False)
class Captioned:
    """Captioned images to train on and to choose by.

    Args:
        train: what is trained on.
        validation: what chooses.
        notes: what a reader should know of them.
    """

    train: CaptionedSplit
    validation: CaptionedSplit
    notes: tuple[str, ...] = field(default=())

    def digest(self) -> str:
        """Return SHA-256 of all captions and of what every image's file holds, in order; paths do not count."""
        digest = hashlib.sha256()
        for split in (self.train, self.validation):
            digest.update(f"{len(split)} {split.pictures_each if len(split) else 0} ".encode())
            for texts in (split.captions, split.negatives):
                digest.update(json.dumps(texts).encode("utf-8", "surrogatepass"))
            if isinstance(split.pictures, Pictures):
                for content in split.pictures.contents:
                    digest.update(content)
                digest.update(f"{split.pictures.fit} {split.pictures.transparency}".encode())
            else:
                digest.update(split.pictures.contiguous().numpy().tobytes())
        return digest.hexdigest()


def divided(split: CaptionedSplit, notes: tuple[str, ...], seed: int) -> Captioned:
    """Hold out a tenth of samples without splits to choose by, at least one.

    Args:
        split: all samples.
        notes: what is known of them.
        seed: of the draw.

    Raises:
        DataError: fewer than two samples.

    Example:
        >>> import torch
        >>> split = CaptionedSplit(torch.zeros(20, 3, 4, 4), [[(f"image {n}",)] for n in range(20)])
        >>> made = divided(split, (), seed=0)
        >>> len(made.train), len(made.validation)
        (18, 2)
    """
    if len(split) < 2:
        are = number_of(len(split), "sample is", "samples are")
        raise DataError(f"{are} too few: one to train on and one to choose by are needed")
    stay, held = held_out([0] * len(split), _SHARE, seed=seed)
    if not held:
        stay, held = stay[:-1], stay[-1:]
    note = f"{number_of(len(held), 'sample is', 'samples are')} held out to choose by"
    return Captioned(split.take(stay), split.take(held), (*notes, note))


def checked(captioned: Captioned, name: str) -> Captioned:
    """Check captions, and leave false ones out that are true; return the rest with notes on both.

    Args:
        captioned: what was read.
        name: what the user called it, for errors.

    Raises:
        DataError: an empty split, splits of another number of images a sample, or one caption for all images.

    Example:
        >>> import torch
        >>> pixels = torch.zeros(2, 3, 4, 4)
        >>> split = CaptionedSplit(pixels, [[("A cat.",)], [("a dog",)]], [("a cat", "a fox"), ("a hen",)])
        >>> checked(Captioned(split, split), "mine").train.negatives
        [('a fox',), ('a hen',)]
    """
    for split, split_name in ((captioned.train, "train"), (captioned.validation, "validation")):
        if len(split) == 0:
            raise DataError(f"{name}: the {split_name} split is empty")
    trained, held = captioned.train.pictures_each, captioned.validation.pictures_each
    if trained != held:
        raise DataError(f"{name}: samples of {trained} images to train on, of {held} held")
    notes = list(captioned.notes)
    counts = Counter(caption for _, caption in _distinct(captioned.train))
    pictures = len(captioned.train) * captioned.train.pictures_each
    (most, times) = counts.most_common(1)[0]
    if len(counts) == 1 and pictures > 1:
        raise DataError(f"{name}: all {pictures} images have the one caption {most!r}: there is nothing to tell apart")
    shared = sum(count > 1 for count in counts.values())
    if shared:
        also = f", and {shared - 1} more captions with several" if shared > 1 else ""
        notes.append(f"caption {most!r:.80} stands with {times} images{also}: in one batch they count as wrong")
    train, true_ones = _without_true(captioned.train)
    if true_ones:
        first = "; ".join(f"{caption!r:.60}" for caption in true_ones[:_SHOWN])
        notes.append(f"{len(true_ones)} false captions equal a caption of their image, and are left out: {first}")
    return replace(captioned, train=train, notes=tuple(notes))


def captioned_split(split: Any, *, pairs: bool = False, false: dict[str, Texts] | None = None) -> CaptionedSplit:
    """Return a split of a data set as captioned samples.

    Args:
        split: of image-text, `gate_data.data.Split`, whose texts are the images' captions in order; or, for ``pairs``,
            of two images and two captions a sample.
        pairs: whether a sample is a known pair.
        false: false captions by the path of an image.
    """
    texts, count = split.texts or (), len(split)
    captions_each = len(texts) // count if count else 0
    own = [tuple(texts[row * captions_each : (row + 1) * captions_each]) for row in range(count)]
    if pairs:
        return CaptionedSplit(split.images, [[captions] for captions in own])
    negatives = [false.get(str(files[0]), ()) for files in split.images.files] if false else ()
    return CaptionedSplit(split.images, [[(caption,) for caption in captions] for captions in own], negatives)


def false_captions(own: OwnBenchmark, folder: Path) -> dict[str, Texts]:
    """Return false captions by the path of an image, from the tables of one's own data.

    Args:
        own: what the benchmark's file says.
        folder: the file's folder, from which its paths count.

    Raises:
        DataError: a field that holds neither texts nor a list of them; shows file, line and column.
    """
    if own.data.kind != "table":
        return {}
    tables = {"": own.data.table} if own.data.table else {"train": own.splits.train}
    by_picture: dict[str, Texts] = {}
    for split, path in tables.items():
        root = folder / own.data.roots.get(split, own.data.root)
        for row in table(folder / path, ()):
            column = next((name for name in row.values if str(name).casefold() in NEGATIVES), None)
            if column is None:
                return {}
            picture = str(root / row.text(own.data.image))
            by_picture[picture] = (
                *by_picture.get(picture, ()),
                *texts_in(row.values[column], f"{row.where}, {column!r}"),
            )
    return by_picture


def texts_in(value: Any, where: str) -> Texts:
    """Return the texts of a field: one, several with | between, or a list.

    Raises:
        DataError: another value, or an empty text; shows ``where``.

    Example:
        >>> texts_in("a cat | a dog", "captions.csv, line 2")
        ('a cat', 'a dog')
    """
    if value is None or value == "":
        return ()
    texts = value.split("|") if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise DataError(f"{where}: expected false captions, none of them empty, found {value!r:.80}")
    return tuple(text.strip() for text in texts)


def _distinct(split: CaptionedSplit) -> Iterator[tuple[int, str]]:
    """Each image's captions, each once."""
    for row, forms in enumerate(split.captions):
        for index in range(len(forms[0])):
            for caption in {form[index] for form in forms}:
                yield row * len(forms[0]) + index, caption


def _without_true(split: CaptionedSplit) -> tuple[CaptionedSplit, list[str]]:
    if not split.negatives:
        return split, []
    true_ones: list[str] = []
    negatives: list[Texts] = []
    for forms, false in zip(split.captions, split.negatives, strict=True):
        true = {_plain(form[0]) for form in forms}
        true_ones += [caption for caption in false if _plain(caption) in true]
        negatives.append(tuple(caption for caption in false if _plain(caption) not in true))
    return replace(split, negatives=negatives if any(negatives) else ()), true_ones


def _plain(caption: str) -> str:
    return " ".join(caption.casefold().split()).rstrip(".")
