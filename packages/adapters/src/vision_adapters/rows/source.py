"""Samples that are indexed by a vector of row numbers, and the batches that a training draws from them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, closing
from itertools import tee
from typing import Any, NamedTuple, Protocol

from jaxtyping import Int
from torch import Tensor


class Draw(NamedTuple):
    """What decides a batch: the training's seed, the step (the first being 1), and the rows [b].

    Example:
        >>> import torch
        >>> Draw(seed=0, step=1, rows=torch.tensor([7, 2])).rows.tolist()
        [7, 2]
    """

    seed: int
    step: int
    rows: Int[Tensor, " b"]


class Rows(Protocol):
    """Samples that are read when they are asked for; a tensor is one, indexed along its first dimension.

    Those that make batches ahead, or vary them from step to step, have a generator `stream(draws)`: one batch per draw.
    Those whose rows are decoded or encoded whenever they are read have ``costly = True``: a checkpoint looks at some of
    them, and `fit(belongs_to=...)` takes a digest of what all are made of.

    Example:
        >>> import torch
        >>> rows: Rows = torch.arange(6).view(3, 2)
        >>> rows[torch.tensor([2, 0])].tolist()
        [[4, 5], [0, 1]]
    """

    def __len__(self) -> int:
        """Number of samples."""
        ...

    def __getitem__(self, rows: Any, /) -> Any:
        """The samples of a vector of row numbers, or of a slice: a tensor [b, ...], or a list of what is ragged."""
        ...


def drawn(sources: Sequence[Rows], draws: Iterable[Draw]) -> Generator[tuple[Any, ...]]:
    """The batches of several sources side by side; `draws` is consumed ahead where a source works ahead."""
    with ExitStack() as stack:
        orders = tee(draws, len(sources))
        streams = [
            stack.enter_context(closing(source.stream(order) if hasattr(source, "stream") else _read(source, order)))
            for source, order in zip(sources, orders, strict=True)
        ]
        yield from zip(*streams, strict=True)


def _read(source: Rows, draws: Iterable[Draw]) -> Generator[Any]:
    """Batches of rows that are read as they are asked for."""
    for draw in draws:
        rows = draw.rows.to(source.device) if isinstance(source, Tensor) else draw.rows
        yield source[rows]
