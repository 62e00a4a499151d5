"""NYU Depth v2: one HDF5 file of pictures, classes and depths, read row by row."""

from __future__ import annotations

from pathlib import Path

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, from_lists
from gate_data.readers import ClassMap, Stored, place
from gate_data.readers.arrays import stored_shape
from gate_data.tables import read_table

_FILE = "nyu_depth_v2_labeled.mat"
_EXPECTED = f"nyu/{_FILE}"
_ROWS = 1449
_TABLE = read_table("nyu")
_BLOCK = 20
"""Neighbouring rows are of one room: so many stay on one side."""


def _parts(folder: Path, key: str) -> Parts:
    path = str(folder / _FILE)
    for name, shape in (("images", (_ROWS, 3, 640, 480)), (key, (_ROWS, 640, 480))):
        if stored_shape(path, name) != shape:
            raise DataError(f"{path}: {name} has the shape {stored_shape(path, name)}, expected {shape}")
    training = set(_TABLE["train"])
    train: list[Sample] = []
    test: list[Sample] = []
    for row in range(_ROWS):
        truth = Stored(path, key, row, (1, 0))
        sample = Sample(Stored(path, "images", row, (2, 1, 0)), truth, group=f"rows {row // _BLOCK}")
        (train if row + 1 in training else test).append(sample)
    return Parts(train, test, classes=tuple(_TABLE["classes"]) if key == "labels" else ())


_find = place(_EXPECTED, ("nyu", "nyuv2", "nyu_depth_v2"), _FILE)
ORIGINALS = from_lists(
    _EXPECTED,
    _find,
    lambda folder: _parts(folder, "labels"),
    target="map",
    grouped=True,
    fit="whole",
    maps=ClassMap({number: label - 1 for number, label in enumerate(_TABLE["class_of_id"]) if label}, ignored=(0,)),
)
DEPTH = from_lists(_EXPECTED, _find, lambda folder: _parts(folder, "depths"), target="depth", grouped=True, fit="whole")
