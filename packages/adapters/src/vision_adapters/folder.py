"""Labelled images from a folder of class folders, or from a table of paths and labels."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from vision_adapters.pictures import read_rgb

ENDINGS = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}
SPLITS = ("train", "test")


class Listing(NamedTuple):
    """Paths, their classes and splits, before any image is opened."""

    paths: list[Path]
    labels: list[int]
    splits: list[str]
    names: list[str]


class Labelled(NamedTuple):
    """Images of one split as bytes, their classes, and the files that could not be read."""

    images: UInt8[Tensor, "n 3 s s"]
    labels: Int[Tensor, " n"]
    names: list[str]
    skipped: list[Path]


def list_images(source: Path, *, test_share: float = 0.2, seed: int = 0) -> Listing:
    """Find labelled images and say which are for testing.

    Args:
        source: a folder with train/CLASS/… and test/CLASS/…; a folder with CLASS/…, of which `test_share` of each class
            (at least one) is drawn for testing; or a .csv with the columns path and label, and split (train or test)
            unless it is to be drawn. Paths in a table are relative to it.
        test_share: 0 < share < 1, where the split is drawn.
        seed: of the draw.

    Returns:
        The listing; classes are numbered in the order of their sorted names.

    Raises:
        ValueError: nothing found, a class without a training image, or a bad row: the message names file, line, field.
        FileNotFoundError: no such folder or table.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"):
        ...     (folder / name).parent.mkdir(exist_ok=True)
        ...     (folder / name).touch()
        >>> listing = list_images(folder, test_share=0.5)
        >>> listing.names, sorted(listing.splits)
        (['cat', 'dog'], ['test', 'test', 'train', 'train'])
    """
    if not 0 < test_share < 1:
        raise ValueError(f"test_share must lie between 0 and 1, got {test_share}")
    if not source.exists():
        raise FileNotFoundError(f"{source} does not exist; expected a folder of class folders or a .csv")
    rows = list(_from_table(source) if source.is_file() else _from_folder(source))
    if not rows:
        raise ValueError(f"{source} holds no images; expected CLASS/IMAGE, train/CLASS/IMAGE, or rows of a .csv")
    names = sorted({name for _, name, _ in rows})
    if len(names) < 2:
        raise ValueError(f"{source} holds the one class {names[0]!r}, expected at least two")
    labels = [names.index(name) for _, name, _ in rows]
    splits = [split for *_, split in rows]
    if not any(splits):
        splits = _drawn(labels, test_share, seed)
    for number, name in enumerate(names):
        if not any(label == number and split == "train" for label, split in zip(labels, splits, strict=True)):
            raise ValueError(f"{source}: class {name!r} has no training image")
    return Listing([path for path, *_ in rows], labels, splits, names)


def load_split(listing: Listing, split: str, size: int, *, skip_unreadable: bool = False) -> Labelled:
    """Open the images of one split: the shorter side scaled to `size`, the centre cut out.

    Args:
        listing: from `list_images`.
        split: "train" or "test".
        size: pixels, >= 1.
        skip_unreadable: leave out files that cannot be opened, and list them; otherwise the first one is an error.

    Raises:
        ValueError: an unknown or empty split, or an unreadable image, named.
        ImportError: without Pillow, naming the extra.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"):
        ...     (folder / name).parent.mkdir(exist_ok=True)
        ...     Image.new("RGB", (40, 30)).save(folder / name)
        >>> load_split(list_images(folder), "test", 16).images.shape
        torch.Size([2, 3, 16, 16])
    """
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ImportError("reading images needs Pillow: pip install 'vision-adapters[images]'") from error
    if split not in SPLITS:
        raise ValueError(f"split must be one of {SPLITS}, got {split!r}")
    chosen = [row for row, name in enumerate(listing.splits) if name == split]
    pixels: list[np.ndarray[tuple[int, ...], np.dtype[np.uint8]]] = []
    labels: list[int] = []
    skipped: list[Path] = []
    for row in chosen:
        path = listing.paths[row]
        try:
            fitted = ImageOps.fit(read_rgb(path), (size, size), Image.Resampling.BICUBIC)
        except (OSError, ValueError) as error:
            if not skip_unreadable:
                raise ValueError(f"{path} cannot be read as an image ({error}); skip such files on request") from error
            skipped.append(path)
            continue
        pixels.append(np.asarray(fitted))
        labels.append(listing.labels[row])
    if not pixels:
        raise ValueError(f"the {split} split has no readable image ({len(skipped)} unreadable)")
    images = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).contiguous()
    return Labelled(images, torch.tensor(labels), listing.names, skipped)


def _from_folder(root: Path) -> Iterator[tuple[Path, str, str]]:
    """(path, class, split or empty) of every image file, in sorted order."""
    parts: Sequence[tuple[Path, str]] = [(root, "")]
    if (root / "train").is_dir() and (root / "test").is_dir():
        parts = [(root / split, split) for split in SPLITS]
    for folder, split in parts:
        for group in sorted(entry for entry in folder.iterdir() if entry.is_dir()):
            for path in sorted(group.rglob("*")):
                if path.suffix.lower() in ENDINGS and path.is_file():
                    yield path, group.name, split


def _from_table(table: Path) -> Iterator[tuple[Path, str, str]]:
    """(path, class, split or empty) of every row."""
    with table.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        columns = reader.fieldnames or []
        for field in ("path", "label"):
            if field not in columns:
                raise ValueError(f"{table}, line 1: no column {field!r}, found {', '.join(columns) or 'nothing'}")
        for row in reader:
            for field in ("path", "label"):
                if not (row[field] or "").strip():
                    raise ValueError(f"{table}, line {reader.line_num}: {field} is empty")
            split = (row.get("split") or "").strip()
            if "split" in columns and split not in SPLITS:
                raise ValueError(f"{table}, line {reader.line_num}: split is {split!r}, expected train or test")
            path = table.parent / row["path"].strip()
            if not os.path.isfile(path):  # noqa: PTH113 - a name that is too long is no file, too
                raise ValueError(f"{table}, line {reader.line_num}: path {row['path']!r} is no file")
            yield path, row["label"].strip(), split


def _drawn(labels: Sequence[int], share: float, seed: int) -> list[str]:
    """A split of each class; one image is left to train on wherever there is one."""
    generator = np.random.default_rng(seed)
    splits = ["train"] * len(labels)
    for number in range(max(labels) + 1):
        members = generator.permutation([row for row, label in enumerate(labels) if label == number])
        count = min(max(1, round(share * len(members))), len(members) - 1)
        for row in members[:count]:
            splits[int(row)] = "test"
    return splits
