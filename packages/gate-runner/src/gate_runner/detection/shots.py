"""Few shots: which training and validation images are shown, drawn by ELEVATER's rule."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int

from gate_data.boxes.objects import Objects
from gate_runner.errors import DataError, UsageError
from vision_adapters.fewshot import detection_indices

if TYPE_CHECKING:
    from gate_data.data import Data, Split
    from gate_runner.tasks.job import Job

VALIDATION = {"1": 1, "3": 1, "5": 1, "10": 3}
"""Images of each class that validate, by how many train; all of them where all train."""


class Shown(NamedTuple):
    """The data without the images that few shots leave out, the shots, and what the result file says of them."""

    data: Data[Objects]
    shots: str
    about: dict[str, Any]


def shown_of(job: Job) -> Shown:
    """The images that a job's benchmark shows, by its ``shots`` and the job's seed."""
    shots = str(job.training.get("shots", "full"))
    about = {"split": job.training.get("split", "test"), "shots": shots}
    if "odinw" in job.training:
        about["odinw"] = job.training["odinw"]
    if shots in ("full", "0"):
        return Shown(job.data, shots, about)
    data = job.data
    prepared = _prepared(job, shots)
    if prepared is not None:
        origin, train, held = prepared
    else:
        origin = f"our draw by ELEVATER's rule, seed {job.seed}; not its own"
        train = draw_shots(data.train.targets, int(shots), job.seed, data.classes)
        held = draw_shots(data.validation.targets, VALIDATION.get(shots, 1), job.seed, data.classes)
    few = replace(data, train=_taken(data.train, train), validation=_taken(data.validation, held))
    rows = {"train": train.tolist(), "validation": held.tolist()}
    draw = {"origin": origin, **rows, "sha256": _digest(rows), "drawn_from": [len(data.train), len(data.validation)]}
    shown = _table(data.train.targets, data.classes).sum(axis=0).tolist()
    short = {name: count for name, count in zip(data.classes, shown, strict=True) if count < int(shots)}
    if short:
        draw["fewer_pictures_than_shots"] = short
    return Shown(few, shots, {**about, "draw": draw})


def draw_shots(objects: Objects, shots: int, seed: int, classes: Sequence[str]) -> Int[np.ndarray, " k"]:
    """Images until each class has as many as asked for, by ELEVATER's rule in a seeded order."""
    if shots < 1:
        raise UsageError(f"--shots must be at least 1 to draw images, not {shots}")
    table = _table(objects, classes)
    shown = np.flatnonzero(table.any(axis=1))
    if not len(shown):
        return shown
    return np.sort(shown[detection_indices(table[shown], shots, seed, short_classes="take").indices])


def _table(objects: Objects, classes: Sequence[str]) -> Int[np.ndarray, "n k"]:
    """1 where an image shows a class, crowds left out."""
    keep = ~objects.rows.columns["crowd"]
    table = np.zeros((len(objects), len(classes)), dtype=np.int64)
    table[objects.picture[keep], objects.rows.columns["label"][keep]] = 1
    return table


def _prepared(job: Job, shots: str) -> tuple[str, np.ndarray, np.ndarray] | None:
    """ELEVATER's own draw, where its files lie there: their names, and images to train and validate."""
    identity, root = job.training.get("odinw"), job.settings.data_root
    if identity is None or root is None or job.settings.limit is not None:
        return None
    from gate_data.originals.odinw import prepared

    rows, names = [], []
    for split, part, count in (
        ("train", job.data.train, int(shots)),
        ("val", job.data.validation, VALIDATION.get(shots, 1)),
    ):
        listed = prepared(root, identity, split, count, job.seed)
        if listed is None:
            if split == "train":
                return None
            drawn = draw_shots(part.targets, count, job.seed, job.data.classes)
            names.append("validation drawn by us")
        else:
            assert not isinstance(part.images, torch.Tensor)
            number = {Path(str(files[0])).name: row for row, files in enumerate(part.images.files)}
            missing = [name for name in listed[1] if Path(name).name not in number]
            if missing and split == "train" and job.data.note.count("training images validate"):
                return None  # some of ELEVATER's images validate here, where it has no images to validate on
            if missing:
                raise DataError(f"{listed[0]} lists {missing[0]!r}, which the {split} split does not hold")
            drawn = np.unique([number[Path(name).name] for name in listed[1]])
            names.append(listed[0].name)
        rows.append(drawn)
    return f"ELEVATER's {', '.join(names)}", rows[0], rows[1]


def _taken(split: Split[Objects], rows: np.ndarray) -> Split[Objects]:
    return split.take(torch.from_numpy(rows)) if len(rows) else split


def _digest(rows: dict[str, list[int]]) -> str:
    return hashlib.sha256(repr(sorted(rows.items())).encode()).hexdigest()
