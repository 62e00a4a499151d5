"""What a backend is asked, what it is given, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import torch

from eqsim.backends.tiles import HALF_CODES
from eqsim.close_pairs import select_from_features
from eqsim.distributed import gather_with_gradient
from eqsim.features import as_scalar, at_least_float32, unit_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from eqsim.close_pairs import ClosePairs
    from eqsim.objective import Contrast, Objective, Parts


@dataclass(frozen=True)
class Need:
    """What is to be computed, known before there are features.

    Attributes:
        objective: what is minimised.
        contrast: the contrastive loss computed along, if any.
        n: samples in the whole batch.
        d: feature size.
        device: "cpu", "cuda", ...
        listed: whether there is a list of close pairs.

    Example:
        >>> from eqsim.objective import Objective
        >>> Need(Objective("v1"), None, n=64, d=512, device="cpu", listed=False).n
        64
    """

    objective: Objective
    contrast: Contrast | None
    n: int
    d: int
    device: str
    listed: bool


@dataclass(frozen=True)
class Work:
    """A batch to be computed; autocast is off.

    Attributes:
        objective: what is minimised.
        contrast: the contrastive loss computed along, if any.
        image, text: (n, d) rows, of this rank until `gathered`, in float32 or float64.
        scale: of the logits.
        bias: of the logits; None unless the contrastive loss has one.
        close_pairs: list of indices into the whole batch.
        close: the rule that makes a list where there is none.
        rank, world_size: of the processes that share the batch.
        generator: for the rule's draws.
        half: 1 where the caller's features were bfloat16, 2 for float16, else 0.
    """

    objective: Objective
    contrast: Contrast | None
    image: Tensor
    text: Tensor
    scale: Tensor
    bias: Tensor | None
    close_pairs: Tensor | None
    close: ClosePairs | None
    rank: int = 0
    world_size: int = 1
    generator: torch.Generator | None = None
    half: int = 0

    @classmethod
    def of(
        cls,
        objective: Objective,
        contrast: Contrast | None,
        image: Tensor,
        text: Tensor,
        scale: Tensor | float,
        bias: Tensor | float | None,
        close_pairs: Tensor | None,
        close: ClosePairs | None,
        *,
        rank: int,
        world_size: int,
        generator: torch.Generator | None,
    ) -> Self:
        """Take a loss's arguments as they are, in any precision."""
        half = HALF_CODES.get(image.dtype, 0)
        image, text = at_least_float32(image), at_least_float32(text)
        offset = None if bias is None or contrast != "sigmoid" else as_scalar(bias, image)
        number = as_scalar(scale, image)
        shared = (close_pairs, close, rank, world_size, generator, half)
        return cls(objective, contrast, image, text, number, offset, *shared)

    @property
    def listed(self) -> bool:
        """Whether there is a list of close pairs, or will be."""
        return self.close_pairs is not None or self.close is not None

    def need(self) -> Need:
        """Return what the choice between backends looks at."""
        n = self.image.shape[0] * self.world_size
        return Need(self.objective, self.contrast, n, self.image.shape[1], self.image.device.type, self.listed)

    def gathered(self) -> Work:
        """Return the same work on the rows of all ranks, unit rows for cosines, with the list of close pairs made."""
        image, text, pairs = self.image, self.text, self.close_pairs
        if self.objective.score == "cosine":
            image, text = unit_rows(image), unit_rows(text)
        image = gather_with_gradient(image, self.rank, self.world_size)
        text = gather_with_gradient(text, self.rank, self.world_size)
        if pairs is None and self.close is not None:
            pairs = select_from_features(
                image,
                text,
                self.scale,
                self.close,
                generator=self.generator,
                rank=self.rank,
                world_size=self.world_size,
            )
        # In full: torch.compile cannot trace `dataclasses.replace` in torch 2.6.
        shared = (self.close, self.rank, self.world_size, self.generator, self.half)
        return Work(self.objective, self.contrast, image, text, self.scale, self.bias, pairs, *shared)


class Backend(NamedTuple):
    """One way to compute a loss.

    Attributes:
        name: what `backend=` calls it.
        refuses: says why it cannot do what is needed, or None.
        suits: says why "auto" should take it for what is needed, or None. Asked only where it does not refuse.
        run: computes a batch.

    Example:
        >>> from eqsim.backends import BACKENDS
        >>> [backend.name for backend in BACKENDS]
        ['dense', 'gram', 'triton', 'tiled']
    """

    name: str
    refuses: Callable[[Need], str | None]
    suits: Callable[[Need], str | None]
    run: Callable[[Work], Parts]
