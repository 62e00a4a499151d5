"""What the 20 data sets' readers share: ELEVATER's own copy first, and class names in its order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int, UInt8

from gate_data.cards.icinw import ICINW, IcinwSheet
from gate_data.data import Data, Split, as_targets
from gate_data.errors import DataError
from gate_data.original_files import Form, Originals, Parts, to_data
from gate_data.originals.icinw import elevater
from gate_data.readers import held_out, spread
from gate_data.request import DataRequest
from gate_data.tables import read_table


class Found(NamedTuple):
    """Where a data set lies, and in which form."""

    path: Path
    elevater: bool


class Side(NamedTuple):
    """Pictures that are rows of an array in their file, and their classes."""

    images: UInt8[np.ndarray, "n 3 h w"]
    labels: Int[np.ndarray, " n"]


@dataclass(frozen=True)
class Arrays:
    """A data set whose own files hold arrays, not pictures."""

    train: Side
    test: Side


@dataclass(frozen=True)
class IcinwOriginals(Originals[Found]):
    """Original files, of which some are arrays.

    Args:
        sides: place to lists of samples, or to arrays.
    """

    sides: Callable[[Found], Parts | Arrays] | None = None


def class_names(name: str) -> tuple[str, ...]:
    """ELEVATER's names, in its order.

    Example:
        >>> class_names("cifar-100")[:3], class_names("food-101")[16:18]
        (('chimpanzee', 'trout', 'skunk'), ('cheesecake', 'cheese plate'))
    """
    return tuple(read_table("icinw_classes")[name])


def places_by_name(name: str, theirs: Sequence[str], where: str) -> list[int]:
    """The place in ELEVATER's order of each class of another list.

    Args:
        name: of the data set.
        theirs: names as the data set's own files have them; case, ``_``, ``/`` and ``-`` make no difference.
        where: what an error calls their file.

    Example:
        >>> places_by_name("fer-2013", ["sad", "Happy", "angry", "disgusted", "fearful", "neutral", "surprised"], "a")
        [5, 3, 0, 1, 2, 4, 6]
    """
    ours = {elevater.plain(label): index for index, label in enumerate(class_names(name))}
    keys = [elevater.plain(label) for label in theirs]
    lost = [label for label, key in zip(theirs, keys, strict=True) if key not in ours]
    free = [label for label in class_names(name) if elevater.plain(label) not in set(keys)]
    if lost or free or len(set(keys)) != len(keys):
        pairs = [f"{label!r} / {free_label!r}" for label, free_label in zip([*lost, "–"], [*free, "–"], strict=False)][
            :5
        ]
        raise DataError(
            f"{where}: {len(theirs)} class names do not match the templates' {len(ours)} (theirs / ours): "
            f"{'; '.join(pairs)}"
        )
    return [ours[key] for key in keys]


def form_of(sheet: IcinwSheet) -> Form:
    """What the samples of a data set become."""
    return Form(target="labels" if sheet.several else "class", share=0.2, fit=sheet.fit)


def originals(
    name: str,
    expected: str,
    find: Callable[[Path], Path],
    own: Callable[[Path], Parts | Arrays],
) -> IcinwOriginals:
    """How one of the 20 is read.

    Args:
        name: of the data set, as ELEVATER has it.
        expected: what has to lie under the data root in its authors' form, in words.
        find: data root to the folder of that form.
        own: folder to lists or arrays, with targets in ELEVATER's order.
    """
    sheet = ICINW[name]
    expected_files = f"classification/{sheet.folder}/{sheet.index[0]}, or {expected}"
    form = form_of(sheet)

    def located(root: Path) -> Found:
        for folder in (root / "classification" / sheet.folder, root / sheet.folder):
            if folder.is_dir():
                missing = [file for file in sheet.index if not (folder / file).is_file()]
                if missing:
                    raise DataError(f"{folder} is there in part: it lacks {' and '.join(missing)}")
                return Found(folder, True)
        try:
            return Found(find(root), False)
        except DataError:
            raise DataError(f"{root} does not hold its files ({expected_files})") from None

    def sides(located_at: Found) -> Parts | Arrays:
        names = class_names(name)
        content = elevater.parts(located_at.path, sheet, names) if located_at.elevater else own(located_at.path)
        if isinstance(content, Arrays):
            return content
        notes = [content.note, "" if located_at.elevater else sheet.note]
        return replace(content, classes=names, note="; ".join(note for note in notes if note))

    def lists(located_at: Found) -> Any:
        content = sides(located_at)
        return None if isinstance(content, Arrays) else content

    def check(located_at: Found) -> None:
        content = sides(located_at)
        counts = [len(side.labels) if isinstance(side, Side) else len(side) for side in (content.train, content.test)]
        if not all(counts):
            raise DataError(f"{located_at.path}: {counts[0]} pictures to train on and {counts[1]} to test")

    def load(located_at: Found, request: DataRequest) -> Data:
        content = sides(located_at)
        if isinstance(content, Parts):
            return to_data(content, form, request, str(located_at.path))
        train, validation = held_out(content.train.labels.tolist(), form.share)
        splits = [_rows(content.train, train, request), _rows(content.train, validation, request)]
        test = _rows(content.test, list(range(len(content.test.labels))), request)
        return Data(splits[0], splits[1], test, class_names(name), sheet.note)

    return IcinwOriginals(expected_files, located, check, load, parts=lists, sides=sides)


def _rows(side: Side, rows: list[int], request: DataRequest) -> Split:
    labels = side.labels[rows].tolist()
    chosen = [rows[index] for index in spread(labels, request.limit)]
    return as_split(Side(side.images[chosen], side.labels[chosen]))


def as_split(side: Side) -> Split:
    """An array of pictures as a split."""
    return Split(torch.from_numpy(np.ascontiguousarray(side.images)), as_targets(side.labels.tolist()))
