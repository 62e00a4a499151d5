"""The objects in images, as targets of a split, and what a detector found of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gate_data.errors import DataError
from gate_data.ragged import Ragged

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

EMPTY: Mapping[str, np.ndarray] = {
    "box": np.zeros((0, 4)),
    "label": np.zeros(0, np.int64),
    "area": np.zeros(0),
    "crowd": np.zeros(0, bool),
}
"""The columns of no objects."""


@dataclass(frozen=True, eq=False)
class Objects:
    """Objects of a split's images, in COCO's conventions.

    Args:
        rows: for each image a row per object: ``box`` ``[m, 4]`` float64, left, top, width and height in pixels of
            the upright image; ``label`` ``[m]``; ``area`` ``[m]`` in square pixels, by which objects are small,
            medium or large; ``crowd`` ``[m]``, True for a region that holds many, in which detections count nowhere.
        sizes: width and height of each image ``[n, 2]``, in pixels.

    Raises:
        DataError: a column that is missing or of another shape, sizes that are not positive, or a box without an area.
    """

    rows: Ragged
    sizes: Int[np.ndarray, "n 2"]

    def __post_init__(self) -> None:
        """Check columns, shapes and values."""
        object.__setattr__(self, "sizes", np.asarray(self.sizes, dtype=np.int64).reshape(-1, 2))
        missing = [name for name in EMPTY if name not in self.rows.columns]
        if missing:
            raise DataError(f"objects lack the column {missing[0]!r}; expected {', '.join(EMPTY)}")
        box = self.rows.columns["box"]
        if box.ndim != 2 or box.shape[1] != 4:
            raise DataError(f"boxes have shape {box.shape}, expected [m, 4]")
        if len(self.sizes) != len(self.rows) or (self.sizes < 1).any():
            raise DataError(f"{len(self.rows)} images have {len(self.sizes)} sizes; expected as many, each positive")
        bad = ~(np.isfinite(box).all(axis=1) & (box[:, 2:] > 0).all(axis=1))
        if bad.any():
            raise DataError(f"box {box[int(bad.argmax())].tolist()} has no area; expected left, top, width, height")

    @classmethod
    def of(cls, pictures: Sequence[Mapping[str, Any]], sizes: Sequence[tuple[int, int]]) -> Objects:
        """From each image's ``box`` and ``label``, ``area`` (by default width times height) and ``crowd`` (none)."""
        samples = []
        for picture in pictures:
            box = np.asarray(picture["box"], dtype=np.float64).reshape(-1, 4)
            samples.append(
                {
                    "box": box,
                    "label": np.asarray(picture["label"], dtype=np.int64).reshape(-1),
                    "area": np.asarray(picture.get("area", box[:, 2] * box[:, 3]), dtype=np.float64),
                    "crowd": np.asarray(picture.get("crowd", np.zeros(len(box))), dtype=bool),
                }
            )
        return cls(Ragged.of(samples, EMPTY), np.asarray(sizes, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: Any) -> Objects:
        """Those of the images at these positions."""
        return Objects(self.rows.take(index), self.sizes[np.asarray(index, dtype=np.int64)])

    def note_in(self, digest: hashlib._Hash) -> None:
        """Add all values to a digest."""
        self.rows.note_in(digest)
        digest.update(np.ascontiguousarray(self.sizes).tobytes())

    def collate(self, index: Any) -> Tensor:
        """Images as one batch for a loss: ``[b, most, 5]``, see `padded`."""
        return self.take(index).padded()

    @property
    def picture(self) -> Int[np.ndarray, " m"]:
        """The image of each row."""
        return np.repeat(np.arange(len(self)), self.rows.lengths)

    def boxes_in_shares(self) -> np.ndarray:
        """Centre, width and height of each row as shares of its image ``[m, 4]``."""
        box, size = self.rows.columns["box"], self.sizes[self.picture].astype(np.float64)
        return np.concatenate([(box[:, :2] + box[:, 2:] / 2) / size, box[:, 2:] / size], axis=1)

    def counts(self, classes: int) -> Int[np.ndarray, " k"]:
        """Objects of each class, crowds left out."""
        counted = self.rows.columns["label"][~self.rows.columns["crowd"]]
        return np.bincount(counted, minlength=classes)

    def padded(self) -> Tensor:
        """For a head's loss: label, centre, width and height as shares of the image ``[n, most, 5]``.

        Crowds are left out. Where an image has fewer than the most, labels are -1.
        """
        import torch

        keep = ~self.rows.columns["crowd"]
        picture = self.picture[keep]
        lengths = np.bincount(picture, minlength=len(self))
        index = np.arange(len(picture)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        padded = np.zeros((len(self), max(1, int(lengths.max(initial=0))), 5), dtype=np.float32)
        padded[..., 0] = -1
        padded[picture, index, 0] = self.rows.columns["label"][keep]
        padded[picture, index, 1:] = self.boxes_in_shares()[keep]
        return torch.from_numpy(padded)


def checked_detections(detections: Ragged, truth: Objects, classes: int) -> Ragged:
    """Detections as evaluation takes them: ``box`` as in `Objects`, ``label`` and ``score`` of each."""
    if len(detections) != len(truth):
        raise DataError(f"detections of {len(detections)} images, expected {len(truth)}")
    box = np.asarray(detections.columns["box"], dtype=np.float64).reshape(-1, 4)
    label = np.asarray(detections.columns["label"], dtype=np.int64)
    score = np.asarray(detections.columns["score"], dtype=np.float64)
    if not (np.isfinite(box).all() and np.isfinite(score).all()):
        odd = int(np.argmin(np.isfinite(np.column_stack([box, score])).all(axis=1)))
        raise DataError(f"detection {odd} has the box {box[odd].tolist()} and the score {score[odd]}; expected numbers")
    if len(label) and not 0 <= label.min() <= label.max() < classes:
        odd = int(np.argmax((label < 0) | (label >= classes)))
        raise DataError(f"detection {odd} is of class {label[odd]}, expected 0 to {classes - 1}")
    return Ragged({"box": box, "label": label, "score": score}, detections.lengths)
