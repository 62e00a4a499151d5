"""Data sets whose own files hold arrays: CIFAR-10 and CIFAR-100, MNIST, FER-2013, flowers, cars and PatchCamelyon."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from gate_data.errors import DataError
from gate_data.original_files import Arrays, Parts, Sample, Side
from gate_data.originals.classification import cifar, read_cifar100
from gate_data.originals.few_shot import flowers
from gate_data.originals.icinw.elevater import elevater_set
from gate_data.readers import Files, Row, Stored, first_of, table
from gate_data.readers.arrays import read_matlab, stored_column, stored_shape
from gate_data.readers.source import read_bytes

_BATCHES = {
    "train": [f"data_batch_{number}" for number in range(1, 6)],
    "test": ["test_batch"],
    "meta": ["batches.meta"],
}
cifar_10 = elevater_set("cifar-10")(cifar("cifar-10-batches-py", "cifar-10-python.tar.gz", _BATCHES, "labels"))
cifar_100 = elevater_set("cifar-100")(read_cifar100)


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


@elevater_set("mnist")
def mnist(folder: Path) -> Arrays:
    """Four files of MNIST's own format, packed or not."""

    def side(stem: str) -> Side:
        images, labels = _idx(folder, stem, "images-idx3"), _idx(folder, stem, "labels-idx1")
        if len(images) != len(labels) or labels.max(initial=0) > 9:
            raise DataError(f"{folder}: {stem} has {len(images)} images and {len(labels)} labels up to {labels.max()}")
        return Side(_grey(images), labels.astype(np.int64))

    return Arrays(side("train"), side("t10k"))


def _grey(images: np.ndarray) -> np.ndarray:
    return np.broadcast_to(images[:, None], (len(images), 3, *images.shape[1:]))


_EMOTIONS = (0, 1, 2, 3, 5, 6, 4)
"""FER-2013's numbers (angry, disgust, fear, happy, sad, surprise, neutral) to ELEVATER's alphabetical places."""


@elevater_set("fer-2013")
def fer_2013(folder: Path) -> Arrays:
    """Rows of pixels in a table, in either order of its columns; the private test is scored."""
    path = first_of(folder, ("icml_face_data.csv", "fer2013.csv", "fer2013/fer2013.csv"))
    images: dict[str, list[np.ndarray]] = {"Training": [], "PrivateTest": []}
    labels: dict[str, list[int]] = {"Training": [], "PrivateTest": []}
    for row in table(path, ["emotion", "pixels", "Usage"]):
        if (usage := row.text("Usage")) in images:
            labels[usage].append(_EMOTIONS[row.integer("emotion", 0, 6)])
            images[usage].append(_pixels(row))
    if not all(labels.values()):
        raise DataError(f"{path} has no rows of Training or of PrivateTest")
    train, test = (Side(_grey(np.stack(images[usage])), np.array(labels[usage])) for usage in images)
    return Arrays(train, test)


def _pixels(row: Row) -> np.ndarray:
    try:
        values = np.array(row.text("pixels").split(), dtype=np.int64)
    except ValueError:
        values = np.zeros(0, np.int64)
    if values.shape != (2304,) or values.min() < 0 or values.max() > 255:
        raise row.error("pixels", "2,304 whole numbers from 0 to 255")
    return values.astype(np.uint8).reshape(48, 48)


@elevater_set("oxford-flower-102")
def oxford_flower_102(folder: Path) -> Parts:
    """Numbers of images in ``setid.mat``, where the test is the largest of three lists."""
    files, labels = flowers(folder)
    path = folder / "setid.mat"

    def side(key: str) -> list[Sample]:
        rows = [Row(path, 0, {key: number}, "variable") for number in read_matlab(str(path), key).ravel().tolist()]
        numbers = [row.integer(key, 1, len(labels)) for row in rows]
        return [Sample(files.get(f"image_{number:05}.jpg", f"{path}: {key}"), labels[number - 1]) for number in numbers]

    return Parts(side("trnid"), side("tstid"))


@elevater_set("stanford-cars")
def stanford_cars(folder: Path) -> Parts:
    """Classes are numbers into ``cars_meta.mat``."""
    kit = folder / "devkit"
    names = [str(name.item()) for name in read_matlab(str(kit / "cars_meta.mat"), "class_names").ravel()]

    def side(path: Path, pictures: str) -> list[Sample]:
        files = Files(folder / pictures)
        notes = read_matlab(str(path), "annotations").ravel()
        if "class" not in (notes.dtype.names or ()):
            raise DataError(f"{path} has no classes: the test's are in cars_test_annos_withlabels.mat")
        rows = (
            Row(path, number, {key: note[key].item() for key in ("class", "fname")}, "annotation")
            for number, note in enumerate(notes, start=1)
        )
        return [
            Sample(files.get(row.text("fname"), row.where), row.integer("class", 1, len(names)) - 1) for row in rows
        ]

    test = first_of(folder, ("cars_test_annos_withlabels.mat", "devkit/cars_test_annos_withlabels.mat"))
    return Parts(side(kit / "cars_train_annos.mat", "cars_train"), side(test, "cars_test"), classes=tuple(names))


@elevater_set("patch-camelyon")
def patch_camelyon(folder: Path) -> Parts:
    """Rows of HDF5 arrays, which are read when they are needed."""

    def side(name: str) -> list[Sample]:
        x, y = (folder / f"camelyonpatch_level_2_split_{name}_{key}.h5" for key in "xy")
        count = stored_shape(str(x), "x")[0]
        if not count:
            raise DataError(f"{x} holds no images")
        if stored_shape(str(y), "y")[0] != count:
            raise DataError(f"{y} has {stored_shape(str(y), 'y')[0]} labels for {count} images")
        column = stored_column(str(y), "y").reshape(count, -1)
        if column.shape[1] != 1:
            raise DataError(f"{y} has {column.shape[1]} labels for each image, expected one")
        if not np.isin(column, (0, 1)).all():
            raise DataError(f"{y}: labels are {np.unique(column).tolist()[:5]}, expected 0 and 1")
        return [Sample(Stored(str(x), "x", row), int(label)) for row, label in enumerate(column[:, 0].tolist())]

    return Parts(side("train"), side("test"))
