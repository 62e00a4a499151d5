"""Data sets whose own files hold arrays: CIFAR-10 and CIFAR-100, MNIST, FER-2013, flowers, cars and PatchCamelyon."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample
from gate_data.originals.icinw.form import Arrays, Side, originals, places_by_name
from gate_data.readers import Files, Stored, first_of, pickles, place
from gate_data.readers.archives import read_packed
from gate_data.readers.arrays import read_matlab, stored_array, stored_shape
from gate_data.readers.source import read_bytes

_EMOTIONS = (0, 1, 2, 3, 5, 6, 4)
"""FER-2013's numbers (angry, disgust, fear, happy, sad, surprise, neutral) to ELEVATER's alphabetical places."""


def _cifar(name: str, batches: tuple[str, ...], test: str, meta: str, key: str) -> Any:
    folder = {"cifar-10": "cifar-10-batches-py", "cifar-100": "cifar-100-python"}[name]

    def content(path: Path, files: list[str]) -> dict[str, Any]:
        if path.is_dir():
            raw = {file: read_bytes(str(path / file)) for file in files}
        else:
            packed = read_packed(path, [f"{folder}/{file}" for file in files])
            raw = {file: packed[f"{folder}/{file}"] for file in files}
        return {file: pickles.load(content_of_file, f"{path}: {file}") for file, content_of_file in raw.items()}

    def own(path: Path) -> Arrays:
        contents = content(path, [*batches, test, meta])
        names = [str(label) for label in _field(contents[meta], f"{key.removesuffix('s')}_names", f"{path}: {meta}")]
        places = np.array(places_by_name(name, names, f"{path}: {meta}"))

        def side(files: tuple[str, ...]) -> Side:
            images = np.concatenate([_pixels(contents[file], f"{path}: {file}") for file in files])
            labels = np.concatenate(
                [
                    pickles.whole_numbers(_field(contents[file], key, f"{path}: {file}"), f"{path}: {file}: {key}")
                    for file in files
                ]
            )
            if not len(labels) or len(images) != len(labels) or labels.min() < 0 or labels.max() >= len(places):
                span = f"{labels.min()} to {labels.max()}" if len(labels) else "none"
                raise DataError(f"{path}: {len(images)} pictures and labels {span}; expected 0 to {len(places) - 1}")
            return Side(images, places[labels])

        return Arrays(side(batches), side((test,)))

    expected = f"{folder}/ or {name}-python.tar.gz"

    def find(root: Path) -> Path:
        for at in (root / name, root / name.replace("-", ""), root):
            if (at / folder / meta).is_file():
                return at / folder
            if (at / f"{name}-python.tar.gz").is_file():
                return at / f"{name}-python.tar.gz"
        raise DataError(f"{root} does not hold its files ({expected})")

    return originals(name, expected, find, own)


def _field(content: Any, key: str, where: str) -> Any:
    if not isinstance(content, dict) or not isinstance(content.get(key), list | np.ndarray):
        raise DataError(f"{where} has no list {key!r}")
    return content[key]


def _pixels(content: Any, where: str) -> np.ndarray:
    pixels = _field(content, "data", where)
    if not isinstance(pixels, np.ndarray):
        raise DataError(f"{where}: data is a list, expected an array")
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != 3072:
        raise DataError(f"{where} holds {pixels.dtype} {pixels.shape}, expected uint8 [n, 3072]")
    return pixels.reshape(-1, 3, 32, 32)


def _idx(folder: Path, stem: str, kind: str) -> np.ndarray:
    """An array in MNIST's own format: a magic number and sizes, big-endian, and bytes."""
    names = [f"{stem}-{kind}{dot}ubyte{end}" for dot in ("-",) for end in ("", ".gz")]
    names += [f"{stem}.{kind}-ubyte{end}" for end in ("", ".gz")]
    path = first_of(folder, names)
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


def _mnist(folder: Path) -> Arrays:
    def side(stem: str) -> Side:
        images, labels = _idx(folder, stem, "images-idx3"), _idx(folder, stem, "labels-idx1")
        if len(images) != len(labels) or labels.max(initial=0) > 9:
            raise DataError(
                f"{folder}: {stem} has {len(images)} pictures and {len(labels)} labels up to {labels.max()}"
            )
        return Side(_grey(images), labels.astype(np.int64))

    return Arrays(side("train"), side("t10k"))


def _find_mnist(root: Path) -> Path:
    for folder in (root / "MNIST" / "raw", root / "mnist", root / "MNIST", root):
        if any(folder.glob("t10k-images*idx3*ubyte*")):
            return folder
    raise DataError(f"{root} does not hold its files")


def _grey(images: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.broadcast_to(images[:, None], (len(images), 3, *images.shape[1:])))


def _fer(path: Path) -> Arrays:
    """Rows of pixels in a table, in either order of its columns; the private test is scored."""
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


def _find_fer(root: Path) -> Path:
    for folder in (root / "fer2013", root / "fer-2013", root):
        for name in ("icml_face_data.csv", "fer2013.csv", "fer2013/fer2013.csv"):
            if (folder / name).is_file():
                return folder / name
    raise DataError(f"{root} does not hold its files")


def _flowers(folder: Path) -> Parts:
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


def _cars(folder: Path) -> Parts:
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


def _pcam(folder: Path) -> Parts:
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


_SAID = {
    "fer-2013": "fer2013/fer2013.csv or icml_face_data.csv",
    "mnist": "mnist/train-images-idx3-ubyte.gz and the three beside it",
    "oxford-flower-102": "flowers-102/jpg/, imagelabels.mat and setid.mat",
    "stanford-cars": "stanford_cars/cars_train/, cars_test/, devkit/ and cars_test_annos_withlabels.mat",
    "patch-camelyon": "pcam/camelyonpatch_level_2_split_train_x.h5 (unpacked) and the three beside it",
}
CIFAR_10 = _cifar("cifar-10", tuple(f"data_batch_{at}" for at in range(1, 6)), "test_batch", "batches.meta", "labels")
CIFAR_100 = _cifar("cifar-100", ("train",), "test", "meta", "fine_labels")
MNIST = originals("mnist", _SAID["mnist"], _find_mnist, _mnist)
FER_2013 = originals("fer-2013", _SAID["fer-2013"], _find_fer, _fer)
OXFORD_FLOWER_102 = originals(
    "oxford-flower-102",
    _SAID["oxford-flower-102"],
    place(_SAID["oxford-flower-102"], ("flowers-102", "oxford-flower-102", "flowers102"), ("jpg", "setid.mat")),
    _flowers,
)
STANFORD_CARS = originals(
    "stanford-cars",
    _SAID["stanford-cars"],
    place(_SAID["stanford-cars"], ("stanford_cars", "stanford-cars", "cars"), "devkit/cars_meta.mat"),
    _cars,
)
PATCH_CAMELYON = originals(
    "patch-camelyon",
    _SAID["patch-camelyon"],
    place(_SAID["patch-camelyon"], ("pcam", "patch-camelyon"), "camelyonpatch_level_2_split_train_x.h5"),
    _pcam,
)
