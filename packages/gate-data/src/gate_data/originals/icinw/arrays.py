"""Data sets whose own files hold arrays: CIFAR-10 and CIFAR-100, MNIST, FER-2013, flowers, cars and PatchCamelyon."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gate_data.errors import DataError
from gate_data.original_files import Arrays, Originals, Parts, Sample, Side
from gate_data.originals.classification import cifar_side, pickled_lists, read_members
from gate_data.originals.icinw.elevater import Located, elevater_set, places_by_name
from gate_data.readers import Files, Stored, first_of, pickles
from gate_data.readers.arrays import read_matlab, stored_array, stored_shape
from gate_data.readers.source import read_bytes

_EMOTIONS = (0, 1, 2, 3, 5, 6, 4)
"""FER-2013's numbers (angry, disgust, fear, happy, sad, surprise, neutral) to ELEVATER's alphabetical places."""


def _cifar(name: str, folder: str, train: Sequence[str], test: str, meta: str, key: str) -> Originals[Located]:
    def find(root: Path) -> Path | None:
        for parent in (root / name, root / name.replace("-", ""), root):
            if (parent / folder / meta).is_file():
                return parent / folder
            if (parent / f"{name}-python.tar.gz").is_file():
                return parent / f"{name}-python.tar.gz"
        return None

    @elevater_set(name, f"{folder}/ or {name}-python.tar.gz", find)
    def read(path: Path) -> Arrays:
        raw = read_members(path, folder, [*train, test, meta])
        (listed,) = pickled_lists(raw[meta], (f"{key.removesuffix('s')}_names",), f"{path}: {meta}")
        places = np.array(places_by_name(name, pickles.texts(listed, f"{path}: {meta}"), f"{path}: {meta}"))
        sides = [cifar_side({file: raw[file] for file in files}, key, len(places), path) for files in (train, (test,))]
        first, second = (Side(side.images, places[side.labels]) for side in sides)
        return Arrays(first, second)

    return read


_BATCHES = [f"data_batch_{number}" for number in range(1, 6)]
cifar_10 = _cifar("cifar-10", "cifar-10-batches-py", _BATCHES, "test_batch", "batches.meta", "labels")
cifar_100 = _cifar("cifar-100", "cifar-100-python", ("train",), "test", "meta", "fine_labels")


def _idx(folder: Path, stem: str, kind: str) -> np.ndarray:
    """An array in MNIST's own format: a magic number and sizes, big-endian, and bytes."""
    path = first_of(folder, [f"{stem}{dot}{kind}-ubyte{end}" for dot in "-." for end in ("", ".gz")])
    raw = read_bytes(str(path))
    try:
        raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
    except (OSError, EOFError) as error:
        raise DataError(f"{path} is not whole: {error}") from error
    axes = 3 if kind == "images-idx3" else 1
    magic = int.from_bytes(raw[:4], "big")
    if magic != 2048 + axes:
        raise DataError(f"{path} begins with {magic}, expected {2048 + axes}")
    shape = tuple(int.from_bytes(raw[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(axes))
    if len(raw) != 4 + 4 * axes + int(np.prod(shape)):
        raise DataError(f"{path} has {len(raw)} bytes, expected {4 + 4 * axes + int(np.prod(shape))} for {shape}")
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape)


def _find_mnist(root: Path) -> Path | None:
    folders = (root / "MNIST" / "raw", root / "mnist", root / "MNIST", root)
    return next((folder for folder in folders if any(folder.glob("t10k-images*idx3*ubyte*"))), None)


@elevater_set("mnist", "mnist/train-images-idx3-ubyte.gz and the three beside it", _find_mnist)
def mnist(folder: Path) -> Arrays:
    """Four files of MNIST's own format, packed or not."""

    def side(stem: str) -> Side:
        images, labels = _idx(folder, stem, "images-idx3"), _idx(folder, stem, "labels-idx1")
        if len(images) != len(labels) or labels.max(initial=0) > 9:
            raise DataError(
                f"{folder}: {stem} has {len(images)} pictures and {len(labels)} labels up to {labels.max()}"
            )
        return Side(_grey(images), labels.astype(np.int64))

    return Arrays(side("train"), side("t10k"))


def _grey(images: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.broadcast_to(images[:, None], (len(images), 3, *images.shape[1:])))


_FER = ("icml_face_data.csv", "fer2013.csv", "fer2013/fer2013.csv")


@elevater_set("fer-2013", "fer2013/fer2013.csv or icml_face_data.csv", ("fer2013", "fer-2013"), *_FER)
def fer_2013(folder: Path) -> Arrays:
    """Rows of pixels in a table, in either order of its columns; the private test is scored."""
    path = first_of(folder, _FER)
    sides: dict[str, tuple[list[np.ndarray], list[int]]] = {"Training": ([], []), "PrivateTest": ([], [])}
    try:
        with path.open(newline="", encoding="ascii") as file:
            reader = csv.reader(file)
            heads = [head.strip() for head in next(reader, [])]
            if not {"emotion", "pixels", "Usage"} <= set(heads):
                raise DataError(f"{path} has the columns {', '.join(heads)}; expected emotion, pixels and Usage")
            emotion, pixels, usage = (heads.index(head) for head in ("emotion", "pixels", "Usage"))
            for number, row in enumerate(reader, start=2):
                if len(row) != len(heads) or not row[emotion].strip().isdecimal() or int(row[emotion]) > 6:
                    raise DataError(
                        f"{path}, line {number}: field 'emotion', or how many fields there are: {','.join(row)[:60]!r}"
                    )
                side = sides.get(row[usage].strip())
                if side is None:
                    continue
                image = np.array(row[pixels].split(), dtype=np.int64)
                if image.shape != (2304,) or image.min() < 0 or image.max() > 255:
                    raise DataError(
                        f"{path}, line {number}: field 'pixels' has {len(image)} numbers, expected 2304 from 0 to 255"
                    )
                side[0].append(image.astype(np.uint8).reshape(48, 48))
                side[1].append(_EMOTIONS[int(row[emotion])])
    except (OSError, ValueError, csv.Error) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} cannot be read: {error}") from error
    if not all(side[1] for side in sides.values()):
        raise DataError(f"{path} has no rows of Training or of PrivateTest")
    splits = [Side(_grey(np.stack(images)), np.array(labels)) for images, labels in sides.values()]
    return Arrays(splits[0], splits[1])


@elevater_set(
    "oxford-flower-102",
    "flowers-102/jpg/, imagelabels.mat and setid.mat",
    ("flowers-102", "oxford-flower-102", "flowers102"),
    ("jpg", "setid.mat"),
)
def oxford_flower_102(folder: Path) -> Parts:
    """Numbers of pictures in ``setid.mat``, where the test is the largest of three lists."""
    labels = read_matlab(str(folder / "imagelabels.mat"), "labels").ravel()
    files = Files(folder / "jpg")

    def side(key: str) -> list[Sample]:
        path, samples = folder / "setid.mat", []
        for number in read_matlab(str(path), key).ravel().tolist():
            if not 1 <= number <= len(labels):
                raise DataError(f"{path}: {key} has picture {number}, imagelabels.mat has {len(labels)}")
            label = int(labels[number - 1]) - 1
            if not 0 <= label < 102:
                raise DataError(
                    f"{folder / 'imagelabels.mat'}: picture {number} has class {label + 1}, expected 1 to 102"
                )
            samples.append(Sample(files.get(f"image_{number:05}.jpg", f"{path}: {key}"), label))
        return samples

    return Parts(side("trnid"), side("tstid"))


@elevater_set(
    "stanford-cars",
    "stanford_cars/cars_train/, cars_test/, devkit/ and cars_test_annos_withlabels.mat",
    ("stanford_cars", "stanford-cars", "cars"),
    "devkit/cars_meta.mat",
)
def stanford_cars(folder: Path) -> Parts:
    """Classes are numbers into ``cars_meta.mat``, whose order is not ELEVATER's: they are matched by name."""
    kit = folder / "devkit"
    names = [str(name.item()) for name in read_matlab(str(kit / "cars_meta.mat"), "class_names").ravel()]
    places = places_by_name("stanford-cars", names, str(kit / "cars_meta.mat"))

    def side(path: Path, pictures: str) -> list[Sample]:
        files, samples = Files(folder / pictures), []
        notes = read_matlab(str(path), "annotations").ravel()
        if "class" not in (notes.dtype.names or ()):
            raise DataError(f"{path} has no classes: the test's are in cars_test_annos_withlabels.mat")
        for number, note in enumerate(notes, start=1):
            label = int(note["class"].item())
            if not 1 <= label <= len(names):
                raise DataError(f"{path}, annotation {number}: class {label}, expected 1 to {len(names)}")
            samples.append(
                Sample(files.get(str(note["fname"].item()), f"{path}, annotation {number}"), places[label - 1])
            )
        return samples

    test = first_of(folder, ("cars_test_annos_withlabels.mat", "devkit/cars_test_annos_withlabels.mat"))
    return Parts(side(kit / "cars_train_annos.mat", "cars_train"), side(test, "cars_test"))


@elevater_set(
    "patch-camelyon",
    "pcam/camelyonpatch_level_2_split_train_x.h5 (unpacked) and the three beside it",
    ("pcam", "patch-camelyon"),
    "camelyonpatch_level_2_split_train_x.h5",
)
def patch_camelyon(folder: Path) -> Parts:
    """Rows of HDF5 arrays, which are read when they are needed."""

    def side(name: str) -> list[Sample]:
        x, y = (folder / f"camelyonpatch_level_2_split_{name}_{key}.h5" for key in "xy")
        count = stored_shape(str(x), "x")[0]
        if stored_shape(str(y), "y")[0] != count:
            raise DataError(f"{y} has {stored_shape(str(y), 'y')[0]} labels for {count} pictures")
        labels = [int(stored_array(Stored(str(y), "y", row)).ravel()[0]) for row in range(count)]
        if not set(labels) <= {0, 1}:
            raise DataError(f"{y}: labels are {sorted(set(labels))[:5]}, expected 0 and 1")
        return [Sample(Stored(str(x), "x", row), label) for row, label in enumerate(labels)]

    return Parts(side("train"), side("test"))
