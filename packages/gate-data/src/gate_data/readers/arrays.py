"""Arrays in HDF5 and MATLAB files, read row by row where the format allows it."""

from __future__ import annotations

import io
import math
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gate_data.errors import DataError, MissingExtraError
from gate_data.readers.limits import refuse_special, within
from gate_data.readers.matlab import check
from gate_data.readers.source import File, Stored, described, read_bytes

_LOCK = threading.Lock()
"""HDF5's library takes one call at a time."""


def read_matlab(file: File, key: str, content: bytes | None = None) -> Any:
    """One variable of a MATLAB file of version 5 to 7."""
    import scipy.io

    raw = read_bytes(file) if content is None else content
    check(raw, described(file))
    try:
        variables = scipy.io.loadmat(io.BytesIO(raw), variable_names=[key])
    except Exception as error:  # scipy raises errors of many unrelated types for a damaged file
        raise DataError(f"{described(file)} cannot be read as MATLAB 5: {error}") from error
    if key not in variables:
        with_names = ", ".join(name for name, *_ in scipy.io.whosmat(io.BytesIO(raw)))
        raise DataError(f"{described(file)} has no variable {key!r}; it has {with_names}")
    return variables[key]


def stored_shape(file: str, key: str) -> tuple[int, ...]:
    """The shape of an array in an HDF5 file, of which nothing is read."""
    with _LOCK:
        return tuple(int(side) for side in _array(file, key).shape)


def stored_array(source: Stored) -> np.ndarray:
    """One row of an array, its axes in the order that the source says."""
    with _LOCK:
        array = _array(source.file, source.key)
        if not 0 <= source.row < len(array):
            raise DataError(f"{described(source)} is not there: {source.key} has {len(array)} rows")
        row = math.prod(array.shape[1:]) * array.dtype.itemsize
        within(row, "bytes", described(source))
        if array.chunks is not None:  # each that is touched is unpacked whole
            within(math.prod(array.chunks) * array.dtype.itemsize, "bytes", f"{source.file}: a chunk of {source.key}")
        try:
            values = np.asarray(array[source.row])
        except Exception as error:  # HDF5's library raises errors of many unrelated types for a damaged file
            raise DataError(f"{described(source)} cannot be read: {error}") from error
    return values.transpose(source.axes) if source.axes else values


def stored_picture(source: Stored) -> Image.Image:
    """One row of an array of pictures."""
    values = stored_array(source)
    if values.dtype != np.uint8 or values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] != 3):
        raise DataError(f"{described(source)} has {values.dtype} {values.shape}, expected uint8 pixels in 3 channels")
    return Image.fromarray(np.ascontiguousarray(values)).convert("RGB")


def _array(file: str, key: str) -> Any:
    """An array of numbers that lies in this file: neither behind a link to another nor in storage beside it."""
    import h5py

    handle = _opened(file)
    try:
        node = handle
        for name in filter(None, key.split("/")):
            link = node.get(name, getlink=True) if isinstance(node, h5py.Group) else None
            if link is None:
                raise DataError(f"{file} has no array {key!r}; it has {', '.join(list(handle)[:12])}")
            if not isinstance(link, h5py.HardLink):
                raise DataError(f"{file}: {key!r} is a link, not an array of this file")
            node = node[name]
        if not isinstance(node, h5py.Dataset) or not node.shape or node.dtype.kind not in "buif":
            raise DataError(f"{file}: {key!r} is no array of numbers with rows")
        if node.external or node.is_virtual:
            raise DataError(f"{file}: the values of {key!r} lie in other files, which are not read")
    except DataError:
        raise
    except Exception as error:  # as above
        raise DataError(f"{file}: {key!r} cannot be read as HDF5: {error}") from error
    return node


@lru_cache(maxsize=8)
def _opened(file: str) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise MissingExtraError(f"{file} is HDF5: pip install 'gate-data[hdf5]'") from error
    refuse_special(Path(file))
    try:
        return h5py.File(file, "r")
    except Exception as error:  # as above
        raise DataError(f"{file} cannot be read as HDF5: {error}") from error
