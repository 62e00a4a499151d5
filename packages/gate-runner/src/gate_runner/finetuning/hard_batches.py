"""Batches in which a share of the samples are hard negatives of the others: those that the start confuses with them."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from vision_adapters.rows import Draw, Rows

NEAREST = 128
"""Others of each sample that are looked at, as EqSim's section C has it."""


def nearest_others(image: Float[Tensor, "n d"], text: Float[Tensor, "n d"]) -> Int[Tensor, "n m"]:
    """Of each image, the samples whose captions score best with it, itself left out, best first."""
    count = len(image)
    image, text = F.normalize(image, dim=1), F.normalize(text, dim=1)
    rows: list[Tensor] = []
    for start in range(0, count, 1024):
        scores = image[start : start + 1024] @ text.T
        own = torch.arange(start, start + len(scores))
        scores[torch.arange(len(scores)), own] = -torch.inf
        rows.append(scores.topk(min(NEAREST, count - 1), dim=1).indices)
    return torch.cat(rows)


def with_hard_negatives(draw: Draw, nearest: Int[Tensor, "n m"], share: float) -> Draw:
    """A batch whose last samples are replaced by the nearest others of its first ones, in turn, none twice.

    Example:
        >>> nearest = torch.tensor([[1, 2, 3], [0, 2, 3], [3, 0, 1], [2, 1, 0]])
        >>> with_hard_negatives(Draw(0, 1, torch.tensor([0, 3])), nearest, 0.5).rows.tolist()
        [0, 1]
    """
    count = len(draw.rows)
    hard = min(round(share * count), count - 1)
    rows = draw.rows[: count - hard].tolist()
    spare = iter(draw.rows[count - hard :].tolist())
    taken = set(rows)
    for place in range(hard):
        anchor = rows[place % (count - hard)]
        row = next((other for other in nearest[anchor].tolist() if other not in taken), None)
        if row is None:  # all of its nearest are in the batch
            row = next(other for other in spare if other not in taken)
        rows.append(row)
        taken.add(row)
    return draw._replace(rows=torch.tensor(rows))


class HardRows:
    """Another source's rows, in batches with hard negatives; the same for every source of a training."""

    def __init__(self, rows: Rows, nearest: Int[Tensor, "n m"], share: float) -> None:
        self.source, self.nearest, self.share = rows, nearest, share
        self.costly = getattr(rows, "costly", False)
        self.forms = getattr(rows, "forms", ())

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, rows: Any, /) -> Any:
        return self.source[rows]

    def stream(self, draws: Iterable[Draw]) -> Generator[Any]:
        """One batch per draw."""
        changed = (with_hard_negatives(draw, self.nearest, self.share) for draw in draws)
        source: Any = self.source
        if hasattr(source, "stream"):
            yield from source.stream(changed)
            return
        for draw in changed:
            yield source[draw.rows]
