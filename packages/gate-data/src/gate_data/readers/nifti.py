"""NIfTI volumes."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from gate_data.errors import DataError
from gate_data.imports import extra
from wary_files.limits import most, reading, refuse_special, within


def volume(path: Path) -> Shaped[np.ndarray, "x y z"]:
    """A volume's values, its axes x, y, z."""
    reader = library()
    refuse_special(path)
    with reading(str(path), "NIfTI"):  # by nibabel, gzip and zlib
        _refuse_long_headers(reader, path)
        image = reader.load(path)
        shape = image.shape
        if len(shape) != 3:
            raise DataError(f"{path} has the shape {shape}, expected three axes")
        within(math.prod(shape) * max(8, image.get_data_dtype().itemsize), "bytes", f"{path}, as numbers,")
        if image.get_data_dtype().kind not in "biuf":
            raise DataError(f"{path} holds {image.get_data_dtype()}, expected real numbers")
        values: np.ndarray = np.asarray(image.dataobj, dtype=np.float64)
    return values


def orientation(path: Path) -> tuple[str, ...]:
    """Where a volume's axes lead, such as ``("R", "A", "S")``; empty where its header does not say it."""
    reader = library()
    with reading(str(path), "NIfTI"):
        image = reader.load(path)
        codes = int(image.header["sform_code"]), int(image.header["qform_code"])
        return tuple(map(str, reader.aff2axcodes(image.affine))) if any(codes) else ()


def _refuse_long_headers(nibabel: Any, path: Path) -> None:
    """What stands before the values is read whole by nibabel, whatever its size once it is unpacked."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        head = file.read(540)
    size = {348, 540} & {int.from_bytes(head[:4], "little"), int.from_bytes(head[:4], "big")}
    if not size or len(head) < min(size):
        raise DataError(f"{path} cannot be read as NIfTI: it has no header of 348 or 540 bytes")
    kind = nibabel.Nifti1Header if 348 in size else nibabel.Nifti2Header
    offset = float(kind(head[: min(size)], check=False)["vox_offset"])
    if not 0 <= offset <= most("bytes"):
        raise DataError(f"{path} cannot be read as NIfTI: its values begin at byte {offset:g}")


def slices(values: Shaped[np.ndarray, "x y z"]) -> Float[np.ndarray, "z y x"]:
    """A volume as slices, one per z, with rows from y."""
    return values.transpose(2, 1, 0).astype(np.float32)


def library() -> Any:
    """Nibabel."""
    return extra("medical", "nibabel", "NIfTI files need nibabel")
