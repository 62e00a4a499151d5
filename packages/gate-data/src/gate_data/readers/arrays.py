"""Arrays in HDF5 and MATLAB files, read row by row where the format allows it.

Every element of a MATLAB file is looked at before scipy reads it, which trusts them.
"""

from __future__ import annotations

import io
import math
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gate_data.errors import DataError
from gate_data.imports import extra
from gate_data.readers.source import File, Stored, described, read_bytes
from wary_files.forking import FreshLock
from wary_files.limits import most, reading, refuse_special, variable, within

_LOCK = FreshLock()
"""HDF5's library takes one call at a time. A fork waits for the call that runs, by h5py's own lock."""
_OPEN = 8
"""Files that stay open at most."""
_handles: dict[str, tuple[tuple[int, ...], Any]] = {}
"""By path, the latest used last: what the file was like when it was opened, and its handle."""
_PLAIN = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8, 16: 1, 17: 2, 18: 4}
"""Types of plain values, and the bytes of one."""
_FORMS = {1: "b", 5: "i", 6: "I"}
"""Of these, what Python's struct calls those that an array's parts have."""
_MATRIX, _COMPRESSED = 14, 15
_CELL, _STRUCT, _CHAR, _FIRST_NUMBERS, _LAST_NUMBERS = 1, 2, 4, 6, 15
_DEEPEST = 32
"""Cells and structs within one another."""


def read_matlab(file: File, key: str, content: bytes | None = None) -> Any:
    """One variable of a MATLAB file of version 5 to 7."""
    import scipy.io

    raw = read_bytes(file) if content is None else content
    _check_matlab(raw, described(file))
    with reading(described(file), "MATLAB 5"):
        variables = scipy.io.loadmat(io.BytesIO(raw), variable_names=[key])
    if key not in variables:
        with_names = ", ".join(name for name, *_ in scipy.io.whosmat(io.BytesIO(raw)))
        raise DataError(f"{described(file)} has no variable {key!r}; it has {with_names}")
    return variables[key]


def stored_shape(file: str, key: str) -> tuple[int, ...]:
    """The shape of an array in an HDF5 file, of which nothing is read; its rows have to be written."""
    with _LOCK:
        array = _array(file, key)
        _refuse_unwritten(array, file, key)
        return tuple(int(side) for side in array.shape)


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
        with reading(described(source)):
            values = np.asarray(array[source.row])
    return values.transpose(source.axes) if source.axes else values


def stored_column(file: str, key: str) -> np.ndarray:
    """All of an array at once, as labels are read: row by row, each costs a third of a millisecond."""
    with _LOCK:
        array = _array(file, key)
        within(math.prod(array.shape) * array.dtype.itemsize, "bytes", f"{file}: {key}")
        _refuse_unwritten(array, file, key)
        with reading(f"{file}: {key!r}", "HDF5"):
            return np.asarray(array[:])


def _refuse_unwritten(array: Any, file: str, key: str) -> None:
    """Refuse an array of which parts were never written: HDF5 gives zeros for them, which are black images.

    A file may say itself what such parts are filled with, and means them then.
    """
    import h5py

    with reading(f"{file}: {key!r}", "HDF5"):
        if array.id.get_create_plist().fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
            return
        sides = array.shape if array.chunks is None else map(_quotient, array.shape, array.chunks)
        expected = math.prod(sides)
        if array.chunks is not None:
            written, unit = array.id.get_num_chunks(), "chunks"
        else:
            written, unit = expected if array.id.get_storage_size() else 0, "values"
    if written < expected:
        raise DataError(
            f"{file}: {expected - written:,} of {expected:,} {unit} of {key!r} were never written, and would be read "
            "as zeros: fetch the file again, or write all rows"
        )


def _quotient(side: int, part: int) -> int:
    """How many parts a side takes, the last of which may be shorter."""
    return -(-side // part)


def stored_picture(source: Stored) -> Image.Image:
    """One row of an array of images."""
    values = stored_array(source)
    if values.dtype != np.uint8 or values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] != 3):
        raise DataError(f"{described(source)} has {values.dtype} {values.shape}, expected uint8 pixels in 3 channels")
    return Image.fromarray(np.ascontiguousarray(values)).convert("RGB")


def _array(file: str, key: str) -> Any:
    """An array of numbers that lies in this file: neither behind a link to another nor in storage beside it."""
    import h5py

    handle = _opened(file)
    with reading(f"{file}: {key!r}", "HDF5"):
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
    return node


def _opened(file: str) -> Any:
    """A file's handle, which stays open while the file does not change; HDF5 would give what it read of the old one."""
    h5py = extra("hdf5", "h5py", f"{file} is HDF5")
    refuse_special(Path(file))
    with reading(file, "HDF5"):
        status = os.stat(file)  # noqa: PTH116 - for every row
        about = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        before, handle = _handles.pop(file, (about, None))
        if handle is None or before != about:
            if handle is not None:
                handle.close()
            handle = h5py.File(file, "r")
        _handles[file] = about, handle
        while len(_handles) > _OPEN:
            _handles.pop(next(iter(_handles)))[1].close()
    return handle


def _check_matlab(raw: bytes, name: str) -> None:
    """Refuse a file whose elements are not what the format allows: the library would read memory that is not there."""
    if len(raw) < 128 or raw[126:128] not in (b"IM", b"MI"):
        raise DataError(f"{name} cannot be read as MATLAB 5: it has no header of version 5 to 7")
    order = "<" if raw[126:128] == b"IM" else ">"
    view = memoryview(raw)[128:]
    try:
        while len(view):
            kind, data, view = _next(view, order, padded=False)
            if kind == _COMPRESSED:
                unpacker = zlib.decompressobj()
                limit = most("bytes")
                held = unpacker.decompress(data, limit)
                if unpacker.unconsumed_tail:
                    raise ValueError(f"a variable of more than {limit:,} bytes; {variable('bytes')} sets another limit")
                if not unpacker.eof:
                    raise ValueError("a packed variable that is cut short")
                kind, data, _ = _next(memoryview(held), order)
            if kind != _MATRIX:
                raise ValueError(f"a variable of type {kind}, expected {_MATRIX}")
            _check_matrix(data, order, 0)
    except (ValueError, struct.error, zlib.error) as error:
        raise DataError(f"{name} cannot be read as MATLAB 5: {error}") from error


def _next(view: memoryview, order: str, padded: bool = True) -> tuple[int, memoryview, memoryview]:
    """The type and data of the element at the beginning, and what follows it."""
    first, size = struct.unpack(f"{order}II", view[:8])
    if first >> 16:  # up to four bytes stand in the tag itself
        kind, size = first & 0xFFFF, first >> 16
        if size > 4:
            raise ValueError(f"a short element of {size} bytes")
        return kind, view[4 : 4 + size], view[8:]
    if size > len(view) - 8:
        raise ValueError(f"an element of {size} bytes where {len(view) - 8} are left")
    end = 8 + size + (-size % 8 if padded else 0)
    return first, view[8 : 8 + size], view[end:]


def _values(view: memoryview, order: str, form: str = "") -> tuple[tuple[int, ...], int, memoryview]:
    """The next element, of plain values: these, if a form of them is given, how many there are, and what follows."""
    kind, data, remainder = _next(view, order)
    size = _PLAIN.get(kind, 0)
    if not size or len(data) % size or (form and form != _FORMS.get(kind)):
        raise ValueError(f"an element of type {kind} and {len(data)} bytes")
    return struct.unpack(f"{order}{len(data) // size}{form}", data) if form else (), len(data) // size, remainder


def _check_matrix(view: memoryview, order: str, depth: int) -> None:
    if not len(view):
        return  # an empty array has no parts
    if depth > _DEEPEST:
        raise ValueError(f"cells within cells, more than {_DEEPEST} deep")
    flags, length, view = _values(view, order, "I")
    if length != 2:
        raise ValueError(f"flags of {4 * length} bytes, expected 8")
    kind, is_complex = flags[0] & 0xFF, bool(flags[0] & 0x800)
    shape, _, view = _values(view, order, "i")
    if not 2 <= len(shape) <= 32 or min(shape) < 0:
        raise ValueError(f"an array of shape {list(shape[:8])}, expected 2 to 32 sides of at least 0")
    _, _, view = _values(view, order, "b")  # the name
    count = math.prod(shape)
    if kind in (_CELL, _STRUCT):
        fields = 1
        if kind == _STRUCT:
            (size, *_), _, view = _values(view, order, "i")
            _, length, view = _values(view, order, "b")
            if size < 1 or length % size:
                raise ValueError(f"{length} bytes of field names of {size} each")
            fields = length // size
        if count * max(1, fields) * 8 > len(view):
            raise ValueError(f"{count} cells where {len(view)} bytes are left")
        for _ in range(count * fields):
            inner, data, view = _next(view, order)
            if inner != _MATRIX:
                raise ValueError(f"a cell of type {inner}")
            _check_matrix(data, order, depth + 1)
        return
    if not (kind == _CHAR or _FIRST_NUMBERS <= kind <= _LAST_NUMBERS):
        raise ValueError(f"an array of class {kind}, which is not read (sparse, an object, a function, or unknown)")
    for _ in range(1 + is_complex):
        _, held, view = _values(view, order)
        if held != count and kind != _CHAR:  # letters may take several bytes
            raise ValueError(f"{held} values of an array of {count}")
