"""Volumes of strangers: what has no grey value or another orientation is refused with its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate_data.errors import DataError
from gate_data.originals.medical import acdc
from gate_data.request import DataRequest

nibabel = pytest.importorskip("nibabel")
UPRIGHT = np.diag([1.5, 1.5, 10.0, 1.0])


def hearts(
    root: Path, change: Callable[[np.ndarray], np.ndarray] = lambda grey: grey, affine: np.ndarray = UPRIGHT
) -> Path:
    """Twelve patients to train on and two to test on, the last of which has another volume or another annotation."""
    rng = np.random.default_rng(0)
    for split, patients in (("training", range(1, 13)), ("testing", (101, 102))):
        for patient in patients:
            folder = root / split / f"patient{patient:03}"
            folder.mkdir(parents=True)
            grey, truth = rng.random((12, 14, 2), dtype=np.float32), np.zeros((12, 14, 2), np.uint8)
            truth[2:5], truth[6:8], truth[9:] = 1, 2, 3
            is_last = patient == 102
            volumes: dict[str, tuple[Any, Any]] = {
                "": (change(grey) if is_last else grey, UPRIGHT),
                "_gt": (truth, affine if is_last else UPRIGHT),
            }
            for name, (values, placed) in volumes.items():
                nibabel.save(nibabel.Nifti1Image(values, placed), folder / f"{folder.name}_frame01{name}.nii.gz")
    return root


def with_nan(grey: np.ndarray) -> np.ndarray:
    grey[0, 0, 0] = np.nan
    return grey


def test_volumes_without_faults_are_read(tmp_path: Path) -> None:
    data = acdc.load(hearts(tmp_path), DataRequest(size=32))
    assert data.test.targets.unique().tolist() == [0, 1, 2, 3]
    assert 100 < float(data.test.images.float().mean()) < 155


@pytest.mark.parametrize(
    ("change", "affine", "expected"),
    [
        (with_nan, UPRIGHT, r"patient102_frame01\.nii\.gz holds NaN or infinity in 1 places"),
        (
            lambda grey: grey.astype(np.complex64),
            UPRIGHT,
            r"patient102_frame01\.nii\.gz holds complex64, expected",
        ),
        (lambda grey: grey, UPRIGHT * [-1, 1, 1, 1], r"_gt\.nii\.gz has its axes to L, A, S, its volume to R, A, S"),
    ],
)
def test_volumes_that_would_be_black_or_mirrored_are_refused(
    tmp_path: Path, change: Callable[[np.ndarray], np.ndarray], affine: np.ndarray, expected: str
) -> None:
    """One NaN made a volume black, and an annotation whose axes lead elsewhere lay mirrored over it."""
    with pytest.raises(DataError, match=expected):
        acdc.load(hearts(tmp_path, change, affine), DataRequest(size=32))


def test_headers_that_give_no_orientation_are_believed(tmp_path: Path) -> None:
    folder = hearts(tmp_path) / "testing" / "patient102"
    path = folder / "patient102_frame01_gt.nii.gz"
    image = nibabel.load(path)
    values = np.asarray(image.dataobj)
    mirrored = nibabel.Nifti1Image(values, UPRIGHT * [-1, 1, 1, 1])
    mirrored.set_sform(None)
    mirrored.set_qform(None)
    nibabel.save(mirrored, path)
    assert len(acdc.load(tmp_path, DataRequest(size=32)).test.images) == 4
