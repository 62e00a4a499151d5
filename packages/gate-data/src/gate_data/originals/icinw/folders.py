"""Data sets that are folders of classes: Caltech-101, Country211, EuroSAT, Rendered SST-2 and RESISC45.

Three of them have no split of their own: the first pictures in a drawn order train, so many of each class as in
ELEVATER, and others are tested. Scores on these splits are near ELEVATER's and not the same.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, as_samples
from gate_data.originals.icinw.form import originals
from gate_data.readers import files_of_classes, place, shuffled


def _split(classes: int, train: str, test: str) -> Callable[[Path], Parts]:
    def own(folder: Path) -> Parts:
        fitted = files_of_classes(folder / train)
        _count(folder / train, len(fitted), classes)
        return Parts(as_samples(fitted), as_samples(files_of_classes(folder / test), list(fitted)))

    return own


def _drawn(
    classes: int, train: int, test: int | None, rank: Callable[[str], str] = str.casefold
) -> Callable[[Path], Parts]:
    """So many of each class to train on, and so many others (None: all) to test; folders in the order of `rank`."""

    def own(folder: Path) -> Parts:
        by_class = files_of_classes(folder)
        _count(folder, len(by_class), classes)
        lists: tuple[list[Sample], list[Sample]] = ([], [])
        for label, name in enumerate(sorted(by_class, key=rank)):
            files = shuffled(by_class[name])
            if len(files) <= train:
                raise DataError(f"{folder / name} holds {len(files)} pictures, expected more than {train}")
            end = None if test is None else train + test
            lists[0].extend(Sample(file, label) for file in files[:train])
            lists[1].extend(Sample(file, label) for file in files[train:end])
        return Parts(*lists)

    return own


def _caltech_rank(name: str) -> str:
    """By name without case, but ``Faces_easy`` first: it is the "centered face" of CLIP, whose names these are."""
    folded = name.casefold()
    return {"faces": "faces_easy", "faces_easy": "faces"}.get(folded, folded)


def _count(folder: Path, count: int, expected: int) -> None:
    if count != expected:
        raise DataError(f"{folder} holds {count} folders of classes, expected {expected}")


def _made(name: str, expected: str, folders: tuple[str, ...], inside: str, own: Callable[[Path], Parts]):  # type: ignore[no-untyped-def]  # IcinwOriginals
    return originals(name, expected, place(expected, folders, inside), own)


CALTECH_101 = _made(
    "caltech-101",
    "caltech-101/101_ObjectCategories/ with a folder for each of 102 classes",
    ("caltech-101/101_ObjectCategories", "caltech101/101_ObjectCategories", "101_ObjectCategories"),
    "accordion",
    _drawn(102, 30, None, _caltech_rank),
)
COUNTRY211 = _made(
    "country211",
    "country211/train/ and test/, with a folder for each of 211 countries",
    ("country211",),
    "train/AD",
    _split(211, "train", "test"),
)
EUROSAT_CLIP = _made(
    "eurosat_clip",
    "2750/ (or EuroSAT_RGB/) with a folder for each of 10 classes",
    ("2750", "EuroSAT_RGB", "eurosat/2750", "EuroSAT/2750"),
    "AnnualCrop",
    _drawn(10, 500, 500),
)
RENDERED_SST2 = _made(
    "rendered-sst2",
    "rendered-sst2/train/ and test/, with folders negative and positive",
    ("rendered-sst2",),
    "train/negative",
    _split(2, "train", "test"),
)
RESISC45_CLIP = _made(
    "resisc45_clip",
    "NWPU-RESISC45/ with a folder for each of 45 classes",
    ("NWPU-RESISC45", "resisc45/NWPU-RESISC45"),
    "airplane",
    _drawn(45, 70, 560),
)
