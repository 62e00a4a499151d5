"""Places365-Standard: the lists over its folders of pictures, or the easy format with folders of classes."""

from __future__ import annotations

import re
from pathlib import Path

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, as_samples, from_lists
from gate_data.readers import File, Files, files_of_classes, first_of, last_pairs

_EXPECTED = (
    "places365/data_256/, val_256/ and places365_train_standard.txt, places365_val.txt, categories_places365.txt; "
    "or places365_standard/train/CLASS/ and val/CLASS/"
)
_NAMES = ("places365", "places365_standard", "places365/places365_standard", "")


def find(root: Path) -> Path:
    """The folder of the lists, or of ``train`` and ``val``."""
    for folder in (root / name for name in _NAMES):
        lists = (folder / "categories_places365.txt").is_file()
        if lists or ((folder / "train" / "airfield").is_dir() and (folder / "val").is_dir()):
            return folder
    raise DataError(f"{root} does not hold its files ({_EXPECTED})")


def parts(folder: Path) -> Parts:
    """1,803,460 and 36,500 pictures; the test's labels are not public, so that the validation set is the test split."""
    if not (folder / "categories_places365.txt").is_file():
        train = files_of_classes(folder / "train")
        return Parts(as_samples(train), as_samples(files_of_classes(folder / "val"), list(train)), classes=tuple(train))
    categories = folder / "categories_places365.txt"
    names: list[str] = []
    for line, name, label in last_pairs(categories):
        expected = f"/LETTER/NAME and {len(names)}"
        if not re.fullmatch(r"/[a-z]/.+", name) or label != len(names):
            raise DataError(f"{categories}, line {line}: expected {expected}, found '{name} {label}'")
        names.append(name)
    pictures = Files(first_of(folder, ("data_256", "data_256_standard", "data_large", "data_large_standard")))
    tested = Files(first_of(folder, ("val_256", "val_large")))
    lists = [
        [Sample(file, label) for file, label in _listed(folder / name, files, len(names))]
        for name, files in (("places365_train_standard.txt", pictures), ("places365_val.txt", tested))
    ]
    # Of /b/bakery/shop the first part is a letter's folder.
    return Parts(lists[0], lists[1], classes=tuple(name[3:].replace("/", " ").replace("_", " ") for name in names))


def _listed(path: Path, files: Files, classes: int) -> list[tuple[File, int]]:
    samples = []
    for line, name, label in last_pairs(path):
        if label >= classes:
            raise DataError(f"{path}, line {line}: class {label}, expected 0 to {classes - 1}")
        samples.append((files.get(name.lstrip("/"), f"{path}, line {line}"), label))
    return samples


ORIGINALS = from_lists(_EXPECTED, find, parts, share=0.01)
