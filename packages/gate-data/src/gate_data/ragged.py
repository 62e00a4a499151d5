"""Samples that have several rows each, and not all as many: boxes with labels, accepted answers, detections."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gate_data.errors import DataError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class Ragged:
    """Columns of rows, all samples' one after another.

    Args:
        columns: by name, ``[m, ...]``, with one row for each row of each sample.
        lengths: how many rows each sample has, ``[n]``, summing to m.

    Raises:
        DataError: a column is not as long as the lengths together; the message names it.

    Example:
        >>> boxes = Ragged.of([{"label": [3, 1]}, {"label": []}, {"label": [2]}])
        >>> len(boxes), boxes[0]["label"].tolist(), boxes.take(np.array([2, 0]))[0]["label"].tolist()
        (3, [3, 1], [2])
    """

    columns: Mapping[str, np.ndarray]
    lengths: np.ndarray

    def __post_init__(self) -> None:
        """Check the columns against the lengths."""
        object.__setattr__(self, "lengths", np.asarray(self.lengths, dtype=np.int64))
        rows = int(self.lengths.sum())
        for name, column in self.columns.items():
            if len(column) != rows or (self.lengths < 0).any():
                raise DataError(f"column {name!r} has {len(column)} rows, expected {rows}, the sum of the lengths")

    @classmethod
    def of(cls, samples: Iterable[Mapping[str, Any]], like: Mapping[str, np.ndarray] | None = None) -> Ragged:
        """From a mapping of equally long columns per sample; ``like`` holds empty ones, where every sample may be."""
        listed = [{name: np.asarray(value) for name, value in sample.items()} for sample in samples]
        names = tuple(listed[0]) if listed else tuple(like or ())
        lengths = []
        for index, sample in enumerate(listed):
            sizes = {len(column) for column in sample.values()}
            if tuple(sample) != names or len(sizes) != 1:
                shown = {name: len(column) for name, column in sample.items()}
                raise DataError(f"sample {index} has columns {shown}, expected {list(names)}, equally long")
            lengths.append(sizes.pop())
        columns = {}
        for name in names:
            filled = [sample[name] for sample in listed if len(sample[name])]
            empty = like[name] if like is not None else listed[0][name][:0] if listed else np.empty(0)
            columns[name] = np.concatenate(filled) if filled else np.asarray(empty)
        return cls(columns, np.array(lengths, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def _ends(self) -> np.ndarray:
        """Where each sample's rows end, summed once."""
        return np.cumsum(self.lengths)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        """One sample's rows."""
        stop = int(self._ends[index])
        start = stop - int(self.lengths[index])
        return {name: column[start:stop] for name, column in self.columns.items()}

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        ends = self._ends
        for start, stop in zip(ends - self.lengths, ends, strict=True):
            yield {name: column[start:stop] for name, column in self.columns.items()}

    def take(self, index: np.ndarray) -> Ragged:
        """The samples at these positions, in this order."""
        index = np.asarray(index, dtype=np.int64)
        ends = self._ends
        starts, lengths = (ends - self.lengths)[index], self.lengths[index]
        offsets = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        rows = np.repeat(starts, lengths) + offsets
        return Ragged({name: column[rows] for name, column in self.columns.items()}, lengths)

    def joined(self, further: Ragged) -> Ragged:
        """These samples and then the others."""
        columns = {name: np.concatenate([column, further.columns[name]]) for name, column in self.columns.items()}
        return Ragged(columns, np.concatenate([self.lengths, further.lengths]))

    def note_in(self, digest: hashlib._Hash) -> None:
        """Add names, types, shapes and values to a digest."""
        for name, column in (("lengths", self.lengths), *self.columns.items()):
            digest.update(f"{name} {column.dtype.str} {column.shape}".encode())
            digest.update(np.ascontiguousarray(column).tobytes())

    def collate(self, index: Any) -> dict[str, torch.Tensor]:
        """A batch: each column ``[b, most, ...]``, padded with zeros, and ``"mask"``, True where a row is real."""
        import torch

        chosen = self.take(np.asarray(index))
        most = int(chosen.lengths.max(initial=0))
        mask = np.arange(most) < chosen.lengths[:, None]
        batch = {"mask": torch.from_numpy(mask)}
        for name, column in chosen.columns.items():
            padded = np.zeros((len(chosen), most, *column.shape[1:]), dtype=column.dtype)
            padded[mask] = column
            batch[name] = torch.from_numpy(padded)
        return batch

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For an ``.npz`` file."""
        return {"lengths": self.lengths, **{f"column {name}": column for name, column in self.columns.items()}}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Ragged:
        """From what `to_arrays` gave."""
        columns = {name.removeprefix("column "): arrays[name] for name in arrays if name.startswith("column ")}
        return cls(columns, arrays["lengths"])


Outcomes = np.ndarray | Ragged
"""Per-sample outcomes: samples along the first axis, or rows of each."""


def taken(outcomes: Outcomes, index: np.ndarray) -> Outcomes:
    """Outcomes of some of the samples."""
    return outcomes.take(index) if isinstance(outcomes, Ragged) else outcomes[index]
