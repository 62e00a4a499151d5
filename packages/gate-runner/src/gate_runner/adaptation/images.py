"""One's own labelled images: a folder of class folders, with or without splits, or a table of paths and labels."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from gate_data.pictures import Pictures, unreadable
from gate_data.readers import classes_in, files_of_classes, table
from gate_data.readers.folders import SPLIT_WORDS
from gate_runner.errors import DataError


@dataclass(frozen=True)
class Samples:
    """Images of one split, which stay in their files, and the class of each."""

    files: tuple[str, ...]
    labels: Int[Tensor, " n"]

    def __len__(self) -> int:
        return len(self.files)

    def pictures(self, side: int) -> Pictures:
        """The images, scaled and cut to squares when they are indexed."""
        return Pictures.of(self.files, side)

    def take(self, index: Tensor) -> Samples:
        """Those at these positions."""
        return Samples(tuple(self.files[at] for at in index.tolist()), self.labels[index])


@dataclass(frozen=True)
class OwnImages:
    """Images to train and choose on, images that are scored once, and the names of their classes.

    Args:
        train: with those of a validation folder, since choices are made by splitting them.
        test: scored once.
        names: of the classes, sorted.
        skipped: files that could not be read and were left out on request.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"):
        ...     (folder / name).parent.mkdir(exist_ok=True)
        ...     (folder / name).touch()
        >>> images = find_images(folder)
        >>> images.names, len(images.train), len(images.test)
        (('cat', 'dog'), 2, 2)
    """

    train: Samples
    test: Samples
    names: tuple[str, ...]
    skipped: tuple[str, ...] = ()

    def without_unreadable(self, side: int) -> OwnImages:
        """The same without the files that cannot be decoded, which are all read for it."""
        splits, skipped = [], []
        for samples in (self.train, self.test):
            lost = set(unreadable(samples.pictures(side)))
            kept = [at for at in range(len(samples)) if at not in lost]
            skipped += [samples.files[at] for at in sorted(lost)]
            if not kept:
                raise DataError(
                    f"none of {len(samples)} images of a split can be read, the first is {samples.files[0]}"
                )
            splits.append(samples.take(torch.tensor(kept)))
        return OwnImages(splits[0], splits[1], self.names, tuple(skipped))


def find_images(source: Path, *, test_share: float = 0.2, seed: int = 0) -> OwnImages:
    """Find labelled images and say which are for testing; none is opened.

    Args:
        source: a folder with ``CLASS/…``, of which ``test_share`` of each class (at least one) is drawn for testing; a
            folder with ``train/CLASS/…`` and ``test/CLASS/…``, ``val/CLASS/…`` or both (with both, those of ``val``
            train, too); or a table (.csv, .tsv, .jsonl, .parquet) with the columns path and label, and split unless it
            is to be drawn. Paths in a table are relative to it.
        test_share: 0 < share < 1, where the split is drawn.
        seed: of the draw.

    Returns:
        The images of both splits.

    Raises:
        DataError: nothing found, a class that is empty or cannot be read, classes that differ in case alone, splits
            that are not whole, or a bad row: the message names the folder, or file, line and field.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("train/cat/1.png", "train/dog/1.png", "test/cat/2.png", "test/dog/2.png"):
        ...     (folder / name).parent.mkdir(parents=True, exist_ok=True)
        ...     (folder / name).touch()
        >>> find_images(folder).names
        ('cat', 'dog')
    """
    if not 0 < test_share < 1:
        raise DataError(f"test_share must lie between 0 and 1, got {test_share}")
    if not source.exists():
        raise DataError(f"{source} does not exist; expected a folder of class folders or a table")
    rows = list(_from_table(source) if source.is_file() else _from_folder(source))
    names = sorted({name for _, name, _ in rows})
    _check_names(source, names)
    number = {name: at for at, name in enumerate(names)}
    labels = [number[name] for _, name, _ in rows]
    splits = [split for *_, split in rows]
    if not any(splits):
        splits = _drawn(labels, test_share, seed)
    tested = "test" if "test" in splits else "validation"
    if tested not in splits:
        raise DataError(f"{source} holds images to train on and none to test on; expected test or val beside train")
    chosen: dict[bool, list[int]] = {True: [], False: []}
    for at, split in enumerate(splits):
        chosen[split == tested].append(at)
    trained = {labels[at] for at in chosen[False]}
    for at, name in enumerate(names):
        if at not in trained:
            raise DataError(f"{source}: class {name!r} has no training image")
    train, test = (_samples(rows, labels, chosen[tests]) for tests in (False, True))
    return OwnImages(train, test, tuple(names))


def _samples(rows: list[tuple[str, str, str]], labels: list[int], chosen: list[int]) -> Samples:
    return Samples(tuple(rows[at][0] for at in chosen), torch.tensor([labels[at] for at in chosen]))


def _check_names(source: Path, names: list[str]) -> None:
    if len(names) < 2:
        raise DataError(f"{source} holds the one class {names[0]!r}, expected at least two")
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(unicodedata.normalize("NFKC", name).casefold(), name)
        if other != name:
            raise DataError(
                f"{source}: are {other!r} and {name!r} one class or two? Give them one name, or names that differ in "
                "more than case"
            )


def _from_folder(root: Path) -> Iterator[tuple[str, str, str]]:
    """(file, class, split or empty) of every image file, in sorted order."""
    folders = classes_in(root)
    splits = {name: SPLIT_WORDS[name.lower()] for name in folders if name.lower() in SPLIT_WORDS}
    if not splits:
        for name, files in files_of_classes(root).items():
            yield from ((file, name, "") for file in files)
        return
    others = [name for name in folders if name not in splits]
    if others:
        raise DataError(
            f"{root} holds {', '.join(splits)} beside {', '.join(others[:3])}: splits, or classes? Expected one or the "
            "other"
        )
    if "train" not in splits.values() or len(splits) < 2 or len(set(splits.values())) < len(splits):
        raise DataError(f"{root} holds {', '.join(splits)}, which are no whole splits; expected train with test or val")
    for folder, split in splits.items():
        for name, files in files_of_classes(root / folder).items():
            yield from ((file, name, split) for file in files)


def _from_table(path: Path) -> Iterator[tuple[str, str, str]]:
    """(file, class, split or empty) of every row."""
    found = False
    for row in table(path, ("path", "label")):
        found = True
        split = str(row.values.get("split") or "").strip()
        if "split" in row.values and split.lower() not in SPLIT_WORDS:
            raise row.error("split", "train, val or test")
        file = path.parent / row.text("path")
        if not os.path.isfile(file):  # noqa: PTH113 - a name that is too long is no file, too
            raise row.error("path", "a file")
        yield os.fspath(file), row.text("label"), SPLIT_WORDS.get(split.lower(), "")
    if not found:
        raise DataError(f"{path} holds no rows; expected the columns path and label")


def _drawn(labels: list[int], share: float, seed: int) -> list[str]:
    """A split of each class; one image is left to train on wherever there is one."""
    generator = np.random.default_rng(seed)
    splits = ["train"] * len(labels)
    members: dict[int, list[int]] = {}
    for at, label in enumerate(labels):
        members.setdefault(label, []).append(at)
    for number in range(max(labels) + 1):
        drawn = generator.permutation(members.get(number, []))
        count = min(max(1, round(share * len(drawn))), len(drawn) - 1)
        for at in drawn[:count]:
            splits[int(at)] = "test"
    return splits
