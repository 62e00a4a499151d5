"""CoOp's data sets as `gate_data.load` takes them: whole, in their published splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gate_data.coop.cards import COOP, DOMAINS, CoopSheet
from gate_data.coop.lists import MARK, SYNTHETIC, DividedImages, read_aircraft, read_imagenet, read_shifted, read_zhou
from gate_data.original_files import Originals, from_lists
from gate_data.readers.folders import place


def _inside(sheet: CoopSheet) -> tuple[str | tuple[str, ...], ...]:
    """Return what must be in the folder of a set, one of these; of several names in one, all."""
    if sheet.split:
        return (sheet.split,)
    if sheet.id == "coop-imagenet":
        return (("classnames.txt", "images/val"), ("classnames.txt", "val"))
    if sheet.id == "coop-fgvc-aircraft":
        return (("variants.txt", "images_variant_train.txt"),)
    return (sheet.images,)


def _find(sheet: CoopSheet) -> Callable[[Path], Path]:
    """Return what finds a set's folder; nothing in ImageNet-Sketch's tells it from any other root."""
    if sheet.id != "coop-imagenet-sketch":
        find: Callable[[Path], Path] = place(sheet.files, sheet.folders, *_inside(sheet))
        return find

    def sketch(root: Path) -> Path | None:
        folder = root / sheet.folders[0]
        return folder if any((folder / name).is_dir() for name in (sheet.images, "sketch")) else None

    named: Callable[[Path], Path] = place(sheet.files, sketch)
    return named


def _reader(sheet: CoopSheet) -> Callable[[Any], DividedImages]:
    """Return a reader of a set's folder; of made-up images, the note says that alone."""
    reader = _plain_reader(sheet)

    def read(folder: Path) -> DividedImages:
        parts = reader(folder)
        return replace(parts, note=SYNTHETIC) if (folder / MARK).is_file() else parts

    return read


def _plain_reader(sheet: CoopSheet) -> Callable[[Any], DividedImages]:
    if sheet.id in DOMAINS:
        return lambda folder: read_shifted(sheet, folder, folder.parent / "imagenet")
    readers = {"coop-imagenet": read_imagenet, "coop-fgvc-aircraft": read_aircraft}
    return partial(readers.get(sheet.id, read_zhou), sheet)


def _originals(sheet: CoopSheet) -> Originals[Path]:
    return from_lists(sheet.files, _find(sheet), _reader(sheet), trained=False)


ORIGINALS: dict[str, Originals[Path]] = {name: _originals(sheet) for name, sheet in COOP.items()}
"""How each set's own files are read, by its id."""


def __getattr__(name: str) -> Originals[Path]:
    """Return one of them by its id with underscores, for ``module:name``."""
    known = {key.replace("-", "_"): originals for key, originals in ORIGINALS.items()}
    if name not in known:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return known[name]
