"""ACDC: cardiac volumes as NIfTI files, two annotated frames of each patient."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from gate_data.data import Data, Split
from gate_data.errors import DataError
from gate_data.original_files import MAP_SIDE, Originals, Parts, Sample, counted
from gate_data.readers import ClassMap, nifti, place, shuffled
from gate_data.request import DataRequest

_EXPECTED = "ACDC/database/training/patient001/patient001_frame01.nii.gz with _gt.nii.gz … and database/testing/"
_CLASSES = ("background", "right ventricle", "myocardium", "left ventricle")
_MAPS = ClassMap({value: value for value in range(4)})


def parts(folder: Path) -> Parts:
    """Volumes and their annotations, grouped by patient."""
    nifti.library()
    lists = []
    for split in ("training", "testing"):
        samples = []
        for volume in sorted((folder / split).glob("patient*/patient*_frame[0-9]*.nii*")):
            name, _, ending = volume.name.partition(".")
            if not name.endswith("_gt") and not volume.with_name(f"{name}_gt.{ending}").is_file():
                raise DataError(f"{volume} has no annotation {name}_gt.{ending} beside it")
        for truth in sorted((folder / split).glob("patient*/patient*_frame*_gt.nii*")):
            name, _, ending = truth.name.partition("_gt")
            volume = truth.with_name(name + ending)
            if not volume.is_file():
                raise DataError(f"{truth} has no volume {volume.name} beside it")
            samples.append(Sample(str(volume), str(truth), group=truth.parent.name))
        if not samples:
            raise DataError(f"{folder / split} holds no patient*/patient*_frame*_gt.nii.gz")
        lists.append(samples)
    return Parts(lists[0], lists[1], classes=_CLASSES)


def load(folder: Path, request: DataRequest) -> Data:
    """Slices, grouped by volume; a tenth of the training patients validates.

    Grey values go from a volume's 1st percentile to its 99th; slices are scaled to a square, their maps to 256 px by
    the nearest pixel. A limit is in slices: whole volumes are kept.
    """
    volumes = parts(folder)
    lists = volumes.splits(0.1, grouped=True)
    splits = [_split(lists[name], request) for name in ("train", "validation", "test")]
    return Data(splits[0], splits[1], splits[2], _CLASSES, request.compared("", *counted(volumes)))


def _split(volumes: Sequence[Sample], request: DataRequest) -> Split:
    images, maps, groups = [], [], []
    count = 0
    for number, sample in enumerate(volumes if request.limit is None else shuffled(volumes)):
        if request.limit is not None and count >= request.limit:
            break
        picture, truth = _volume(sample, (request.size, request.size))
        images.append(picture)
        maps.append(truth)
        groups.append(torch.full((len(picture),), number))
        count += len(picture)
    return Split(torch.cat(images), torch.cat(maps), groups=torch.cat(groups))


def _volume(sample: Sample, side: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    grey, labels = nifti.volume(Path(str(sample.source))), nifti.volume(Path(sample.target))
    if grey.shape != labels.shape:
        raise DataError(f"{sample.target} has the shape {labels.shape}, its volume {grey.shape}; expected the same")
    if not np.array_equal(labels, labels.round()):
        raise DataError(f"{sample.target} has values that are no whole numbers")
    flat = _MAPS.apply(labels.astype(np.int64).reshape(len(labels), -1), sample.target).reshape(labels.shape)
    low, high = np.percentile(grey, (1, 99))
    scaled = torch.from_numpy(nifti.slices(np.clip((grey - low) / max(high - low, 1e-6), 0, 1)))[:, None]
    truths = torch.from_numpy(nifti.slices(flat))[:, None]
    picture = F.interpolate(scaled, side, mode="bicubic", antialias=True, align_corners=False).clamp(0, 1)
    maps = F.interpolate(truths, (MAP_SIDE, MAP_SIDE), mode="nearest-exact")[:, 0].to(torch.int16)
    return picture.mul(255).round().byte().expand(-1, 3, -1, -1), maps


ORIGINALS = Originals(
    _EXPECTED,
    place(_EXPECTED, ("ACDC/database", "acdc/database", "ACDC", "acdc", "database"), "training/patient001"),
    lambda folder: (parts(folder), None)[1],
    load,
    parts,
)
