"""Images with a class each: CIFAR-100, Food-101, ImageNet-1k, Places365; and Happywhale's two, species and animal."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gate_data.cards import Hub
from gate_data.errors import DataError
from gate_data.hub.tables import Tables, picture
from gate_data.original_files import Arrays, Parts, Sample, Side, as_samples, of_card
from gate_data.readers.arrays import read_matlab
from gate_data.readers.folders import Files, classes_in, files_in, files_of_classes, first_of
from gate_data.readers.source import Member, Source, read_bytes
from gate_data.readers.splits import shuffled
from gate_data.readers.tables import fields, lines, read_json, table
from wary_files import pickles
from wary_files.archives import read_packed


def cifar(folder: str, archive: str, files: Mapping[str, Sequence[str]], key: str) -> Callable[[Path], Arrays]:
    """A reader of CIFAR's pickles, from their folder or from the packed archive that holds it.

    ``files`` names those of ``train``, ``test`` and ``meta``, and ``key`` the list of labels in them.
    """

    def read(root: Path) -> Arrays:
        if (root / folder).is_dir():
            raw = {name: read_bytes(str(root / folder / name)) for part in files.values() for name in part}
            path = root / folder
        else:
            packed = read_packed(root / archive, [f"{folder}/{name}" for part in files.values() for name in part])
            raw, path = {name.rpartition("/")[2]: content for name, content in packed.items()}, root / archive
        (meta,) = files["meta"]
        (listed,) = _pickled(raw[meta], (f"{key.removesuffix('s')}_names",), f"{path}: {meta}")
        names = tuple(pickles.texts(listed, f"{path}: {meta}"))
        train, test = (
            _side({name: raw[name] for name in files[side]}, key, len(names), path) for side in ("train", "test")
        )
        return Arrays(train, test, names)

    return read


def _pickled(raw: bytes, keys: Sequence[str], where: str) -> list[Any]:
    """Lists or arrays out of one of CIFAR's pickled dictionaries."""
    content = pickles.load(raw, where)
    for key in keys:
        if not isinstance(content, dict) or not isinstance(content.get(key), list | np.ndarray):
            raise DataError(f"{where} has no list {key!r}")
    return [content[key] for key in keys]


def _side(files: Mapping[str, bytes], key: str, classes: int, path: Path) -> Side:
    """Images and labels of CIFAR's pickles, one file after another."""
    images, labels = [], []
    for name, raw in files.items():
        where = f"{path}: {name}"
        pixels, listed = _pickled(raw, ("data", key), where)
        numbers = pickles.whole_numbers(listed, f"{where}: {key}")
        if not isinstance(pixels, np.ndarray):
            raise DataError(f"{where}: data is a list, expected an array")
        if pixels.dtype != np.uint8 or pixels.shape != (len(numbers), 3072) or not len(numbers):
            raise DataError(f"{where} holds {pixels.dtype} {pixels.shape} for {len(numbers)} labels")
        for label in (numbers.min(), numbers.max()):
            if not 0 <= label < classes:
                raise DataError(f"{where} has the label {label}, expected 0 to {classes - 1}")
        images.append(pixels.reshape(-1, 3, 32, 32))
        labels.append(numbers)
    return Side(np.concatenate(images), np.concatenate(labels))


read_cifar100 = cifar(
    "cifar-100-python",
    "cifar-100-python.tar.gz",
    {"train": ["train"], "test": ["test"], "meta": ["meta"]},
    "fine_labels",
)
cifar100 = of_card("cifar100")(read_cifar100)


def read_food(folder: Path) -> Parts:
    """750 and 250 images of each class, sorted by name; training labels are noisy on purpose, the test is cleaned."""
    files, sides = Files(folder / "images"), []
    classes: list[str] = []
    for name in ("train", "test"):
        path = folder / "meta" / f"{name}.json"
        listed = read_json(path)
        if not isinstance(listed, dict) or not all(isinstance(pictures, list) for pictures in listed.values()):
            raise DataError(f"{path} is no object of lists, class to images")
        classes = classes or sorted(listed)
        if sorted(listed) != classes:
            raise DataError(f"{folder / 'meta'}: train.json and test.json name different classes")
        pictures = {food: [files.get(f"{picture}.jpg", str(path)) for picture in listed[food]] for food in classes}
        sides.append(as_samples(pictures))
    return Parts(sides[0], sides[1], classes=tuple(name.replace("_", " ") for name in classes))


food101 = of_card("food101")(read_food)

_TYPOS = {"kiler_whale": "killer_whale", "bottlenose_dolpin": "bottlenose_dolphin"}
_TEST, _VALIDATION = 0.15, 0.05


@of_card("happy")
def happy(folder: Path) -> Parts:
    """80, 5 and 15 % of the images; of every individual at least one trains, so that nobody is asked for unseen."""
    files = Files(folder / "train_images")
    rows = list(table(folder / "train.csv", ["image", "species", "individual_id"]))
    return _divided(
        [(files.get(row.text("image"), row.where), row.text("species"), row.text("individual_id")) for row in rows]
    )


def happy_rows(tables: Tables, hub: Hub, count: int) -> Parts:
    """All rows of the hub's three splits, which are divided anew: theirs ask for individuals that nothing trains."""
    del count
    rows = [row for table in tables.values() for row in table.rows]
    return _divided([(picture(row, hub.image), row.text("species_name"), row.text("individual_name")) for row in rows])


def _divided(rows: Sequence[tuple[Source, str, str]]) -> Parts:
    species = [_TYPOS.get(kind, kind) for _, kind, _ in rows]
    heads = [sorted(set(species)), sorted({individual for _, _, individual in rows})]
    numbers = [{name: index for index, name in enumerate(names)} for names in heads]
    samples = [
        Sample(source, (numbers[0][kind], numbers[1][individual]))
        for (source, _, individual), kind in zip(rows, species, strict=True)
    ]
    train: list[Sample] = []
    shared: list[Sample] = []
    met: set[int] = set()
    for sample in shuffled(samples):
        (shared if sample.target[1] in met else train).append(sample)
        met.add(sample.target[1])
    test, validation = (round(share * len(samples)) for share in (_TEST, _VALIDATION))
    classes = [f"{head}/{name}" for head, names in zip(("species", "individual"), heads, strict=True) for name in names]
    note = "two misspelt species are joined with the right ones, which leaves 28"
    held = shared[test : test + validation]
    return Parts(train + shared[test + validation :], shared[:test], held, tuple(classes), note)


_KAGGLE = "ILSVRC/Data/CLS-LOC"
_KIT = "ILSVRC2012_devkit_t12"
_WNID = re.compile(r"n\d{8}")
_TARS = ("ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar")


class _Layout(NamedTuple):
    """Folders, or tar archives, of the images to train on and to score, and the folder in which lists lie."""

    train: Path
    val: Path
    lists: Path


def _find_imagenet(root: Path) -> _Layout | None:
    """Two folders, of which ``train`` holds one named like n01440764; or either's archive instead of it."""
    for lists in (root / "imagenet1k", root / "imagenet", root / "ILSVRC2012", root):
        for pictures in (lists, lists / _KAGGLE):
            train, val = (
                tar if not (pictures / name).is_dir() and (tar := lists / archive).is_file() else pictures / name
                for name, archive in zip(("train", "val"), _TARS, strict=True)
            )
            holds_classes = train.is_dir() and any(map(_WNID.fullmatch, classes_in(train)))
            if (val.is_dir() or val.is_file()) and (train.is_file() or holds_classes):
                return _Layout(train, val, lists)
    return None


@of_card("imagenet1k", _find_imagenet)
def imagenet1k(layout: _Layout) -> Parts:
    """The official validation set is the test split."""
    train = _of_tars(layout.train) if layout.train.is_file() else files_of_classes(layout.train)
    folders = layout.val.is_dir() and any(entry.is_dir() for entry in layout.val.iterdir())
    tested = as_samples(files_of_classes(layout.val), list(train)) if folders else _flat(layout, list(train))
    words = {name: name for name in train}
    for folder in dict.fromkeys((layout.lists, layout.train.parent, layout.lists.parent)):
        if (named := folder / "LOC_synset_mapping.txt").is_file():
            listed = {row.text("wnid"): row.text("words").partition(",")[0] for row in fields(named, "wnid", "words")}
            if missing := sorted(set(train) - set(listed)):
                raise DataError(f"{named} has no line of class {missing[0]}, which {layout.train} holds")
            words |= listed
            break
    return Parts(as_samples(train), tested, classes=tuple(words[name] for name in train))


def _of_tars(archive: Path) -> dict[str, list[Source]]:
    """Class to its images, in the archive of the classes' archives, which is read in place."""
    files: dict[str, list[Source]] = {}
    for member in files_in(archive):
        name = member.name if isinstance(member, Member) else member
        wnid = name.partition("/")[0]
        if not _WNID.fullmatch(wnid):
            raise DataError(f"{archive}: {name} is in no archive of a class like n01440764.tar")
        files.setdefault(wnid, []).append(member)
    return files


def _flat(layout: _Layout, wnids: list[str]) -> list[Sample]:
    """Validation images in one folder or archive, their classes in Kaggle's table or in the development kit."""
    files: dict[str, Source] = {
        Path(file.name if isinstance(file, Member) else file).stem: file for file in files_in(layout.val)
    }
    if (solution := layout.lists / "LOC_val_solution.csv").is_file():
        answers = {
            row.text("ImageId"): row.text("PredictionString").split()[0]
            for row in table(solution, ["ImageId", "PredictionString"])
        }
    else:
        answers = _of_kit(layout.lists, sorted(files))
    number = {name: index for index, name in enumerate(wnids)}
    for stem in files:
        if number.get(answers.get(stem, "")) is None:
            raise DataError(f"{layout.val}: {stem} is of class {answers.get(stem)}, which train/ lacks")
    return [Sample(file, number[answers[stem]]) for stem, file in files.items()]


def _of_kit(folder: Path, stems: list[str]) -> dict[str, str]:
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
        raise DataError(f"{folder / truth} has {len(numbers)} lines for {len(stems)} images")
    unknown = next((number for number in numbers if not number.isdecimal() or int(number) not in wnid), None)
    if unknown is not None:
        raise DataError(f"{folder / truth}: {unknown[:20]!r} is no number of {meta}")
    return {stem: wnid[int(number)] for stem, number in zip(stems, numbers, strict=True)}


@of_card("places365")
def places365(folder: Path) -> Parts:
    """1,803,460 and 36,500 images; the test's labels are not public, so that the validation set is the test split."""
    categories = folder / "categories_places365.txt"
    if not categories.is_file():
        train = files_of_classes(folder / "train")
        return Parts(as_samples(train), as_samples(files_of_classes(folder / "val"), list(train)), classes=tuple(train))
    names: list[str] = []
    for row in fields(categories, "name", "label", last=True):
        if not re.fullmatch(r"/[a-z]/.+", row.text("name")) or row.integer("label") != len(names):
            raise row.error("name", f"/LETTER/NAME and {len(names)}")
        names.append(row.text("name"))

    def side(path: Path, *folders: str) -> list[Sample]:
        files = Files(first_of(folder, folders))
        return [
            Sample(files.get(row.text("file").lstrip("/"), row.where), row.integer("label", 0, len(names) - 1))
            for row in fields(path, "file", "label", last=True)
        ]

    trained = ("data_256", "data_256_standard", "data_large", "data_large_standard")
    return Parts(
        side(folder / "places365_train_standard.txt", *trained),
        side(folder / "places365_val.txt", "val_256", "val_large"),
        classes=tuple(name[3:].replace("/", " ").replace("_", " ") for name in names),  # of /b/bakery/shop, no letter
    )
