"""NIfTI volumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from gate_runner.errors import DataError, MissingCapabilityError


def volume(path: Path) -> Shaped[np.ndarray, "x y z"]:
    """A volume's values, its axes x, y, z.

    Raises:
        DataError: damaged, or not three axes; the message names the file.
        MissingCapabilityError: nibabel is not installed; the message names the extra.
    """
    reader = library()
    try:
        found: np.ndarray = np.asarray(reader.load(path).dataobj, dtype=np.float64)
    except Exception as error:  # nibabel, gzip and zlib raise errors of many unrelated types for a damaged file
        raise DataError(f"{path} cannot be read as NIfTI: {error}") from error
    if found.ndim != 3:
        raise DataError(f"{path} has the shape {found.shape}, expected three axes")
    return found


def slices(values: Shaped[np.ndarray, "x y z"]) -> Float[np.ndarray, "z y x"]:
    """A volume as slices, one per z, with rows from y."""
    return values.transpose(2, 1, 0).astype(np.float32)


def library() -> Any:
    """Nibabel.

    Raises:
        MissingCapabilityError: it is not installed.
    """
    try:
        import nibabel
    except ImportError as error:
        raise MissingCapabilityError("NIfTI files need nibabel: pip install 'gate-runner[medical]'") from error
    return nibabel
