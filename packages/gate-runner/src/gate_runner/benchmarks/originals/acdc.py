"""ACDC: cardiac volumes as NIfTI files, two annotated frames of each patient."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch.nn import functional as F

from gate_runner.benchmarks.benchmark import DataRequest
from gate_runner.benchmarks.data import Data, Split
from gate_runner.benchmarks.originals.splits import folder, shuffled
from gate_runner.errors import DataError, MissingCapabilityError

EXPECTED = "ACDC/database/training/patient001/patient001_frame01.nii.gz with _gt.nii.gz … and database/testing/"
MAP_SIDE = 256
"""Of the class maps, in pixels, whatever the encoder: GATE's."""
_CLASSES = ("background", "right ventricle", "myocardium", "left ventricle")
_VALIDATION = 0.1

Frame = tuple[Path, Path]
"""A volume and its annotation."""


def finds_files(root: Path) -> bool:
    """Whether the two folders of patients lie under the root."""
    return _place(root) is not None


def check(root: Path) -> None:
    """Look whether every annotation has its volume, and whether NIfTI files can be read.

    Raises:
        DataError: a file is missing; the message names it.
        MissingCapabilityError: nibabel is not installed; the message names the extra.
    """
    _nibabel()
    for split in ("training", "testing"):
        _patients(_of(root), split)


def load(request: DataRequest) -> Data:
    """Slices, grouped by volume; a tenth of the training patients validates.

    Grey values go from a volume's 1st percentile to its 99th; slices are scaled to a square, their maps to 256 px by
    the nearest pixel.

    Args:
        request: root, size, and a limit in slices: whole volumes are kept.

    Returns:
        Three splits over disjoint patients.

    Raises:
        DataError: a file is missing, damaged, or its annotation does not fit; the message names it.
        MissingCapabilityError: nibabel is not installed.
    """
    assert request.root is not None
    place = _of(request.root)
    patients = shuffled(list(_patients(place, "training").values()))
    held = max(1, round(_VALIDATION * len(patients)))
    tested = list(_patients(place, "testing").values())
    splits = [_split(part, request) for part in (patients[held:], patients[:held], tested)]
    return Data(splits[0], splits[1], splits[2], _CLASSES).limited(request.limit)


def _place(root: Path) -> Path | None:
    return folder(root, ("ACDC/database", "acdc/database", "ACDC", "acdc", "database"), "training/patient001")


def _of(root: Path) -> Path:
    if (place := _place(root)) is None:
        raise DataError(f"acdc: {root} does not hold {EXPECTED}")
    return place


def _patients(place: Path, split: str) -> dict[str, list[Frame]]:
    found: dict[str, list[Frame]] = {}
    for truth in sorted((place / split).glob("patient*/patient*_frame*_gt.nii*")):
        name, _, ending = truth.name.partition("_gt")
        volume = truth.with_name(name + ending)
        if not volume.is_file():
            raise DataError(f"{truth} has no volume {volume.name} beside it")
        found.setdefault(truth.parent.name, []).append((volume, truth))
    if not found:
        raise DataError(f"{place / split} holds no patient*/patient*_frame*_gt.nii.gz")
    return found


def _split(patients: list[list[Frame]], request: DataRequest) -> Split:
    slices, maps, groups = [], [], []
    count = 0
    for volume, (path, truth) in enumerate(frame for frames in patients for frame in frames):
        if request.limit is not None and count >= request.limit:
            break
        grey, labels = _volume(path), _volume(truth)
        if grey.shape != labels.shape or grey.ndim != 3:
            raise DataError(
                f"{truth} has the shape {labels.shape}, {path.name} {grey.shape}; expected the same three axes"
            )
        if labels.min() < 0 or labels.max() > 3 or not np.array_equal(labels, labels.round()):
            raise DataError(f"{truth} has values from {labels.min():g} to {labels.max():g}, expected 0, 1, 2, 3")
        low, high = np.percentile(grey, (1, 99))
        scaled = np.clip((grey - low) / max(high - low, 1e-6), 0, 1)
        # NIfTI's axes are x, y, z: one slice per z, rows from y.
        images = torch.from_numpy(scaled.transpose(2, 1, 0).astype(np.float32))[:, None]
        truths = torch.from_numpy(labels.transpose(2, 1, 0).astype(np.float32))[:, None]
        side = (request.size, request.size)
        images = F.interpolate(images, side, mode="bicubic", antialias=True, align_corners=False).clamp(0, 1)
        slices.append(images.mul(255).round().byte().expand(-1, 3, -1, -1))
        maps.append(F.interpolate(truths, (MAP_SIDE, MAP_SIDE), mode="nearest-exact")[:, 0].to(torch.int16))
        groups.append(torch.full((len(images),), volume))
        count += len(images)
    return Split(torch.cat(slices), torch.cat(maps), groups=torch.cat(groups))


def _volume(path: Path) -> Shaped[np.ndarray, "x y z"]:
    try:
        found: np.ndarray = np.asarray(_nibabel().load(path).dataobj, dtype=np.float64)
    except MissingCapabilityError:
        raise
    except Exception as error:  # nibabel, gzip and zlib raise errors of many unrelated types for a damaged file
        raise DataError(f"{path} cannot be read as NIfTI: {error}") from error
    return found


def _nibabel() -> Any:
    try:
        import nibabel
    except ImportError as error:
        raise MissingCapabilityError("acdc reads NIfTI files: pip install 'gate-runner[medical]'") from error
    return nibabel
