"""Small made-up images in the files that CoOp's sets have, to try the protocol before the real ones are there."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from gate_data.coop.cards import COOP, DOMAINS, CoopSheet
from gate_data.coop.lists import MARK
from gate_data.errors import UsageError, unknown

COLOURS = {
    "red": (220, 40, 40), "green": (40, 190, 60), "blue": (50, 70, 220), "yellow": (230, 220, 50),
    "purple": (150, 60, 200), "orange": (240, 140, 30), "white": (235, 235, 235), "black": (25, 25, 25),
    "pink": (245, 150, 190), "brown": (120, 75, 40), "grey": (128, 128, 128), "cyan": (60, 210, 220),
}  # fmt: skip
"""Classes of the made-up sets: an image is a square of the colour on a noisy ground."""
_NOTE = "made up: squares of a colour on noise, in the files of CoOp's sets; no score of them is one of the real sets"


def write_made_up(
    root: str | PathLike[str], *, classes: int = 6, images: int = 4, side: int = 48, sets: Iterable[str] = COOP
) -> Path:
    """Write small stand-ins of CoOp's sets into a folder, each in the files that the real one has.

    Args:
        root: the data root, which is made; a set's folder must not be there.
        classes: of each set, 2 to 12; ImageNet-A and -R have half of them, as the real ones have 200 of 1,000.
        images: of each class to train on; there are half as many to validate on and equally many to test.
        side: of the images in pixels, which are not square.
        sets: ids, keys of `gate_data.coop.COOP`; all by default.

    Returns:
        The data root.

    Raises:
        UsageError: a number out of its range, an unknown id, or a set's folder that is there already.

    Example:
        >>> import tempfile
        >>> root = write_made_up(tempfile.mkdtemp(), classes=2, images=2, sets=["coop-dtd"])
        >>> sorted(path.name for path in (root / "dtd").iterdir())
        ['MADE-UP.txt', 'images', 'split_zhou_DescribableTextures.json']
    """
    for name, value, low, high in (("classes", classes, 2, len(COLOURS)), ("images", images, 2, 1000),
                                   ("side", side, 8, 1000)):  # fmt: skip
        if not low <= value <= high:
            raise UsageError(f"{name} must be {low} to {high}, not {value}")
    wanted = list(dict.fromkeys(sets))
    for name in wanted:
        if name not in COOP:
            raise unknown("data set", name, COOP)
    place = Path(root)
    folders = {name: place / COOP[name].folders[0] for name in wanted}
    for folder in folders.values():
        if folder.exists():
            raise UsageError(f"{folder} is there already: synthetic images go into a folder of their own")
    counts = {"train": images, "val": max(1, images // 2), "test": images}
    for name, folder in folders.items():
        _write(COOP[name], folder, list(COLOURS)[:classes], counts, side)
        (folder / MARK).write_text(f"{_NOTE}\n", encoding="utf-8")
    return place


def _write(sheet: CoopSheet, folder: Path, names: Sequence[str], counts: dict[str, int], side: int) -> None:
    if sheet.id == "coop-imagenet" or sheet.id in DOMAINS:
        _write_folders(sheet, folder, names, counts, side)
        return
    lists: dict[str, list[tuple[str, int, str]]] = {part: [] for part in counts}
    for part, label, name, at in _images(names, counts):
        path = f"{name}/{part}_{at:04d}.jpg" if sheet.split else f"{label}{part}{at:04d}.jpg"
        _save(folder / sheet.images / path, f"{sheet.id}/{path}", name, side)
        lists[part].append((path, label, name))
    if sheet.split:
        (folder / sheet.split).write_text(json.dumps(lists), encoding="utf-8")
        return
    (folder / "variants.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    for part, entries in lists.items():
        rows = [f"{path.removesuffix('.jpg')} {name}\n" for path, _, name in entries]
        (folder / f"images_variant_{part}.txt").write_text("".join(rows), encoding="utf-8")


def _write_folders(sheet: CoopSheet, folder: Path, names: Sequence[str], counts: dict[str, int], side: int) -> None:
    ids = [f"n{10_000_000 + 7 * label}" for label in range(len(names))]
    tested = {"test": counts["test"]} if sheet.id in DOMAINS else {part: counts[part] for part in ("train", "test")}
    few = sheet.classes < COOP["coop-imagenet"].classes
    labels = [label for label in range(len(names)) if not few or label % 2 == 0]
    for part, label, name, at in _images(names, tested):
        if label not in labels:
            continue
        inner = str(label) if sheet.id == "coop-imagenet-v2" else ids[label]
        if sheet.id not in DOMAINS:
            inner = f"{'val' if part == 'test' else part}/{inner}"
        path = f"{inner}/{at:04d}.JPEG"
        _save(folder / sheet.images / path, f"{sheet.id}/{path}", name, side)
    rows = [f"{ids[label]} {name}\n" for label, name in enumerate(names)]
    (folder / "classnames.txt").write_text("".join(rows), encoding="utf-8")


def _images(names: Sequence[str], counts: dict[str, int]) -> Iterator[tuple[str, int, str, int]]:
    for part, count in counts.items():
        for label, name in enumerate(names):
            for at in range(count):
                yield part, label, name, at


def _save(path: Path, key: str, name: str, side: int) -> None:
    """Write a square of a colour somewhere on noise whose tone is the set's; the same key draws the same image."""
    from PIL import Image

    rng = np.random.default_rng(zlib.crc32(key.encode()))
    tone = np.random.default_rng(zlib.crc32(key.partition("/")[0].encode())).integers(40, 216, 3)
    pixels = tone + rng.normal(0, 20, (side, side + side // 4, 3))
    size = int(side * rng.uniform(0.4, 0.6))
    top, left = rng.integers(0, side - size), rng.integers(0, side + side // 4 - size)
    pixels[top : top + size, left : left + size] = COLOURS[name] + rng.normal(0, 12, (size, size, 3))
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=92)
