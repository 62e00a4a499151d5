"""Inputs that are read when a batch asks for them, and encoders as modules to be fine-tuned; needs `torch`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from oven_retrieval.pictures import Size, height_width
from oven_retrieval.vectors import VectorStore

ReadPictures = Callable[[Sequence[Path]], Tensor]
"""Image files to a batch [n, 3, h, w] that the encoder takes."""


def _numbers(rows: slice | Int[Tensor, " n"], count: int) -> list[int]:
    return list(range(*rows.indices(count))) if isinstance(rows, slice) else [int(row) for row in rows]


class TextRows:
    """Texts as a model's inputs: rows are lists of texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def __getitem__(self, rows: Any, /) -> list[str]:
        return [self._texts[row] for row in _numbers(rows, len(self._texts))]


class FeatureRows:
    """Stored features as a model's inputs, read from disk when they are asked for."""

    def __init__(self, stored: VectorStore, first: int, last: int) -> None:
        self._stored, self._first, self._last = stored, first, last

    def __getitem__(self, rows: Any, /) -> Tensor:
        numbers = np.array(_numbers(rows, self._last - self._first), dtype=np.int64) + self._first
        return torch.from_numpy(np.asarray(self._stored.array[numbers], dtype=np.float32))


class PictureRows:
    """Image files as a model's inputs, read when they are asked for; a black picture where there is no file."""

    def __init__(self, files: Mapping[int, Path] | Sequence[Path], count: int, read: ReadPictures, size: Size) -> None:
        self._files = files if isinstance(files, Mapping) else dict(enumerate(files))
        self._count, self._read, self._size = count, read, size

    def __getitem__(self, rows: Any, /) -> Tensor:
        numbers = _numbers(rows, self._count)
        pictured = [i for i, row in enumerate(numbers) if row in self._files]
        read = self._read([self._files[numbers[i]] for i in pictured]) if pictured else None
        shape = (3, *height_width(self._size)) if read is None else tuple(read.shape[1:])
        batch = torch.zeros(len(numbers), *shape, dtype=torch.uint8 if read is None else read.dtype)
        if read is not None:
            batch[pictured] = read
        return batch


class Tower(nn.Module):
    """One side of an encoder: a function over the weights of a module; always in evaluation mode.

    Args:
        module: holds the weights.
        encode: a batch to features [n, d], through these weights.
        patches: a batch to features of its places [n, p, w], where the encoder shows them; an adaptor needs them.

    Example:
        >>> weights = nn.Linear(2, 3)
        >>> tower = Tower(weights, lambda batch: weights(batch.float()))
        >>> tower(torch.zeros(5, 2)).shape, tower.train().training
        (torch.Size([5, 3]), False)
    """

    def __init__(
        self,
        module: nn.Module,
        encode: Callable[[Any], Tensor],
        patches: Callable[[Any], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.module, self._encode, self._patches = module, encode, patches

    def train(self, mode: bool = True) -> Tower:
        """Stay in evaluation mode: statistics of normalisation layers stay those of the pre-training."""
        super().train(False)
        return self

    def forward(self, batch: Any) -> Tensor:
        """Features of a batch."""
        return self._encode(batch)

    def patches(self, batch: Tensor) -> Tensor:
        """Features of the places of each picture [n, p, w]; zeros for an all-black one, which stands for none.

        Raises:
            ValueError: the encoder shows no places.
        """
        if self._patches is None:
            raise ValueError("model: an adaptor needs an encoder that shows patch features; this one does not")
        has_picture = batch.flatten(1).any(dim=1)
        features = self._patches(batch)
        return features * has_picture.to(features.device)[:, None, None]


def train_only(model: nn.Module, towers: Sequence[Tower], pattern: str) -> int:
    """Let the towers' weights whose name matches a regular expression learn, and freeze the others."""
    try:
        expression = re.compile("" if pattern == "all" else pattern)
    except re.error as error:
        raise ValueError(f"fine_tune: expected a regular expression, got {pattern!r}: {error}") from None
    model.requires_grad_(True)
    chosen, names = 0, dict[str, None]()
    for module in {id(tower.module): tower.module for tower in towers}.values():
        for name, parameter in module.named_parameters():
            names[name] = None
            parameter.requires_grad_(bool(expression.search(name)) and parameter.is_floating_point())
            chosen += parameter.numel() * parameter.requires_grad
    if not chosen:
        shown = list(names)[:: max(1, len(names) // 5)][:6]
        raise ValueError(f"fine_tune: no weight's name matches {pattern!r}; some of the names are {shown}")
    return chosen
