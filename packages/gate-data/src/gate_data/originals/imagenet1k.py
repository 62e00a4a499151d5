"""ImageNet-1k: folders of classes, Kaggle's archive, or the authors' own tar archives with the development kit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, as_samples, from_lists
from gate_data.readers import Member, Source, classes_in, files_in, files_of_classes, lines, pairs, table
from gate_data.readers.archives import read_packed
from gate_data.readers.arrays import read_matlab

_EXPECTED = (
    "imagenet1k/train/n01440764/ … and val/ with class folders, with LOC_val_solution.csv, or flat with "
    "ILSVRC2012_devkit_t12; or ILSVRC2012_img_train.tar and _val.tar with it; or Kaggle's ILSVRC/Data/CLS-LOC/"
)
_KAGGLE = "ILSVRC/Data/CLS-LOC"
_KIT = "ILSVRC2012_devkit_t12"
_WNID = re.compile(r"n\d{8}")
_TARS = ("ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar")


class Layout(NamedTuple):
    """Folders, or tar archives, of the pictures to train on and to score, and the folder in which lists lie."""

    train: Path
    val: Path
    lists: Path


def find(root: Path) -> Layout:
    """Two folders, of which ``train`` holds one named like n01440764; or either's archive instead of it."""
    for lists in (root / "imagenet1k", root / "imagenet", root / "ILSVRC2012", root):
        for pictures in (lists, lists / _KAGGLE):
            train, val = (
                tar if not (pictures / name).is_dir() and (tar := lists / archive).is_file() else pictures / name
                for name, archive in zip(("train", "val"), _TARS, strict=True)
            )
            if (val.is_dir() or val.is_file()) and (train.is_file() or _holds_classes(train)):
                return Layout(train, val, lists)
    raise DataError(f"{root} does not hold its files ({_EXPECTED})")


def _holds_classes(train: Path) -> bool:
    return train.is_dir() and any(map(_WNID.fullmatch, classes_in(train)))


def parts(layout: Layout) -> Parts:
    """The official validation set is the test split."""
    train = _of_tars(layout.train) if layout.train.is_file() else files_of_classes(layout.train)
    folders = layout.val.is_dir() and any(entry.is_dir() for entry in layout.val.iterdir())
    tested = as_samples(files_of_classes(layout.val), list(train)) if folders else _flat(layout, list(train))
    words = {name: name for name in train}
    for folder in dict.fromkeys((layout.lists, layout.train.parent, layout.lists.parent)):
        if (named := folder / "LOC_synset_mapping.txt").is_file():
            listed = {wnid: line.partition(",")[0].strip() for _, wnid, line in pairs(named)}
            if missing := sorted(set(train) - set(listed)):
                raise DataError(f"{named} has no line of class {missing[0]}, which {layout.train} holds")
            words |= listed
            break
    return Parts(as_samples(train), tested, classes=tuple(words[name] for name in train))


def _of_tars(archive: Path) -> dict[str, list[Source]]:
    """Class to its pictures, in the archive of the classes' archives, which is read in place."""
    files: dict[str, list[Source]] = {}
    for member in files_in(archive):
        name = member.name if isinstance(member, Member) else member
        wnid = name.partition("/")[0]
        if not _WNID.fullmatch(wnid):
            raise DataError(f"{archive}: {name} is in no archive of a class like n01440764.tar")
        files.setdefault(wnid, []).append(member)
    return files


def _flat(layout: Layout, wnids: list[str]) -> list[Sample]:
    """Validation pictures in one folder or archive, their classes in Kaggle's table or in the development kit."""
    files: dict[str, Source] = {
        Path(file.name if isinstance(file, Member) else file).stem: file for file in files_in(layout.val)
    }
    if (solution := layout.lists / "LOC_val_solution.csv").is_file():
        answers = {
            row.text("ImageId"): row.text("PredictionString").split()[0]
            for row in table(solution, ["ImageId", "PredictionString"])
        }
    else:
        answers = _kit(layout.lists, sorted(files))
    number = {name: index for index, name in enumerate(wnids)}
    for stem in files:
        if number.get(answers.get(stem, "")) is None:
            raise DataError(f"{layout.val}: {stem} is of class {answers.get(stem)}, which train/ lacks")
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
    wnid = {int(synset["ILSVRC2012_ID"].item()): str(synset["WNID"].item()) for synset in synsets.ravel()}
    if len(numbers) != len(stems):
        raise DataError(f"{folder / truth} has {len(numbers)} lines for {len(stems)} pictures")
    unknown = next((number for number in numbers if not number.isdecimal() or int(number) not in wnid), None)
    if unknown is not None:
        raise DataError(f"{folder / truth}: {unknown[:20]!r} is no number of {meta}")
    return {stem: wnid[int(number)] for stem, number in zip(stems, numbers, strict=True)}


ORIGINALS = from_lists(_EXPECTED, find, parts, share=0.01)
