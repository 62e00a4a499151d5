"""ImageNet-1k: folders of classes, Kaggle's archive, or a flat validation folder with the development kit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from gate_runner.benchmarks.original_files import Parts, Sample, as_samples, from_lists
from gate_runner.errors import DataError
from gate_runner.readers import classes_in, files_in, files_of_classes, lines, pairs, table
from gate_runner.readers.archives import read_packed
from gate_runner.readers.arrays import read_matlab

_EXPECTED = (
    "imagenet1k/train/n01440764/ … and val/ with class folders, with LOC_val_solution.csv, or flat with "
    "ILSVRC2012_devkit_t12; or Kaggle's ILSVRC/Data/CLS-LOC/"
)
_KAGGLE = "ILSVRC/Data/CLS-LOC"
_KIT = "ILSVRC2012_devkit_t12"
_WNID = re.compile(r"n\d{8}")


class Layout(NamedTuple):
    """The folder of ``train`` and ``val``, and the one in which lists lie."""

    pictures: Path
    lists: Path


def find(root: Path) -> Layout:
    """Two folders, of which ``train`` holds one named like n01440764."""
    for lists in (root / "imagenet1k", root / "imagenet", root / "ILSVRC2012", root):
        for pictures in (lists, lists / _KAGGLE):
            train = pictures / "train"
            if (pictures / "val").is_dir() and train.is_dir() and any(map(_WNID.fullmatch, classes_in(train))):
                return Layout(pictures, lists)
    raise DataError(f"{root} does not hold its files ({_EXPECTED})")


def parts(place: Layout) -> Parts:
    """The official validation set is the test split."""
    train, val = files_of_classes(place.pictures / "train"), place.pictures / "val"
    folders = any(one.is_dir() for one in val.iterdir())
    tested = as_samples(files_of_classes(val), list(train)) if folders else _flat(place, list(train))
    words = {name: name for name in train}
    for folder in dict.fromkeys((place.lists, place.pictures, place.lists.parent)):
        if (named := folder / "LOC_synset_mapping.txt").is_file():
            words |= {wnid: rest.partition(",")[0].strip() for _, wnid, rest in pairs(named)}
            break
    return Parts(as_samples(train), tested, classes=tuple(words[name] for name in train))


def _flat(place: Layout, known: list[str]) -> list[Sample]:
    """Validation pictures in one folder, their classes in Kaggle's table or in the development kit."""
    files = {Path(str(file)).stem: file for file in files_in(place.pictures / "val")}
    if (solution := place.lists / "LOC_val_solution.csv").is_file():
        answers = {
            row.text("ImageId"): row.text("PredictionString").split()[0]
            for row in table(solution, ["ImageId", "PredictionString"])
        }
    else:
        answers = _kit(place.lists, sorted(files))
    number = {name: index for index, name in enumerate(known)}
    for stem in files:
        if number.get(answers.get(stem, "")) is None:
            raise DataError(f"{place.pictures / 'val'}: {stem} is of class {answers.get(stem)}, which train/ lacks")
    return [Sample(file, number[answers[stem]]) for stem, file in files.items()]


def _kit(folder: Path, stems: list[str]) -> dict[str, str]:
    """The kit numbers the classes in an order of its own: ``meta.mat`` says which number is which."""
    truth, meta = (f"{_KIT}/data/{name}" for name in ("ILSVRC2012_validation_ground_truth.txt", "meta.mat"))
    if (packed := folder / f"{_KIT}.tar.gz").is_file():
        raw = read_packed(packed, [truth, meta])
        numbers = raw[truth].decode("ascii").split()
        synsets = read_matlab(f"{packed}: {meta}", "synsets", raw[meta])
    elif (folder / truth).is_file():
        numbers = [line for _, line in lines(folder / truth)]
        synsets = read_matlab(str(folder / meta), "synsets")
    else:
        raise DataError(f"{folder}: val/ has no class folders, and neither LOC_val_solution.csv nor {_KIT} is there")
    wnid = {int(one["ILSVRC2012_ID"].item()): str(one["WNID"].item()) for one in synsets.ravel()}
    if len(numbers) != len(stems):
        raise DataError(f"{folder / truth} has {len(numbers)} lines for {len(stems)} pictures")
    unknown = next((number for number in numbers if not number.isdecimal() or int(number) not in wnid), None)
    if unknown is not None:
        raise DataError(f"{folder / truth}: {unknown[:20]!r} is no number of {meta}")
    return {stem: wnid[int(number)] for stem, number in zip(stems, numbers, strict=True)}


ORIGINALS = from_lists(_EXPECTED, find, parts, share=0.01)
