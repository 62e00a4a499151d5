"""Images of captioned samples as rows of a training: read ahead, and augmented alike for the two of a pair."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gate_data.captioned import CaptionedSplit
from gate_runner.tasks.augmentation import Change, change_of, varied
from vision_adapters.rows import Draw, SampleRows, sample_generator

if TYPE_CHECKING:
    from vision_features.encoders.encoder import Encoder


class PictureRows:
    """Images of samples ``[b, u, 3, s, s]``, the next batch read in a thread while a training uses the last.

    Batches that are drawn are augmented, not rows that are asked for.
    """

    costly = True

    def __init__(self, split: CaptionedSplit, encoder: Encoder, augment: str = "none", workers: int = 0) -> None:
        self.split, self.transform, self.workers = split, encoder.transform, workers
        self.change = None if augment == "none" else change_of(augment, encoder.image_size)

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, rows: Any, /) -> Tensor:
        """The images of these samples."""
        numbers = list(range(len(self)))[rows] if isinstance(rows, slice) else [int(row) for row in rows]
        pictures = self.split.pictures
        if isinstance(pictures, Tensor):
            read = pictures[torch.tensor(numbers)]
        else:
            transform = self.transform if pictures.fit == "crop" else None
            looked = [sample.pixels for sample in pictures.stream(numbers, transform=transform)]
            read = torch.from_numpy(np.stack([pixels for pixels in looked if pixels is not None]))
        return read.reshape(len(numbers), self.split.pictures_each, *read.shape[-3:])

    def stream(self, draws: Iterable[Draw]) -> Generator[Tensor]:
        """One batch per draw."""
        if self.workers:
            made = SampleRows(_Made(self), len(self), workers=self.workers)
            with closing(made.stream(draws)) as batches:
                yield from batches
            return
        order: Iterator[Draw] = iter(draws)
        with ThreadPoolExecutor(1) as thread:
            ahead = next(order, None)
            reading = None if ahead is None else thread.submit(self.__getitem__, ahead.rows)
            while reading is not None:
                batch, draw, ahead = reading.result(), ahead, next(order, None)
                reading = None if ahead is None else thread.submit(self.__getitem__, ahead.rows)
                yield batch if draw is None or self.change is None else self._varied(batch, draw, self.change)

    def _varied(self, batch: Tensor, draw: Draw, change: Change) -> Tensor:
        """Not in the thread: changes draw from the global generators, which the training does, too."""
        rows = draw.rows.tolist()
        generators = (sample_generator(draw.seed, draw.step, row) for row in rows)
        return torch.stack([varied(image, change, made) for image, made in zip(batch, generators, strict=True)])


class _Made:
    """One sample of `PictureRows`, read and augmented in a worker process."""

    def __init__(self, rows: PictureRows) -> None:
        self.rows = rows

    def __call__(self, index: int, generator: torch.Generator | None) -> Tensor:
        """The images of a sample."""
        shown = self.rows[torch.tensor([index])][0]
        change = self.rows.change
        return shown if generator is None or change is None else varied(shown, change, generator)
