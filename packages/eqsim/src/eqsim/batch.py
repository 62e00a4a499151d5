"""A batch as the backends take it, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import torch

from eqsim.checks import check_pairs
from eqsim.close_pairs import Multinomial, TopK, select_from_features
from eqsim.distributed import gather_with_gradient
from eqsim.features import HALF_CODES, as_scalar, at_least_float32, unit_rows

if TYPE_CHECKING:
    from torch import Tensor

    from eqsim.residuals import Terms
    from eqsim.settings import Settings


class Size(NamedTuple):
    """What the choice of a backend looks at besides the settings.

    Attributes:
        n: samples of all ranks.
        d: features of a sample.
        device: "cpu", "cuda", ...
        listed: whether there is a list of close pairs.

    Example:
        >>> Size(n=64, d=512, device="cpu", listed=False).n
        64
    """

    n: int
    d: int
    device: str
    listed: bool


class Parts(NamedTuple):
    """What one pass over the batch gives: the terms of EqSim, and where asked for the contrastive and the pair loss."""

    contrastive: Tensor | None
    terms: Terms
    pair: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch to be computed, in float32 or float64 and without autocast: rows of this rank until `gathered`.

    `pairs` are indices into the whole batch; `half` is 1 where the caller's features were bfloat16, 2 for float16.
    """

    settings: Settings
    image: Tensor
    text: Tensor
    scale: Tensor
    bias: Tensor | None = None
    pairs: Tensor | None = None
    half: int = 0

    @classmethod
    def of(
        cls,
        settings: Settings,
        image: Tensor,
        text: Tensor,
        scale: Tensor | float,
        bias: Tensor | float | None,
        pairs: Tensor | None,
    ) -> Self:
        """Take a loss's arguments as they are, in any precision."""
        half = HALF_CODES.get(image.dtype, 0)
        image, text = at_least_float32(image), at_least_float32(text)
        offset = None if bias is None or settings.contrast != "sigmoid" else as_scalar(bias, image)
        return cls(settings, image, text, as_scalar(scale, image), offset, pairs, half)

    @property
    def listed(self) -> bool:
        """Whether there is a list of close pairs, or will be."""
        return self.pairs is not None or self.settings.miner is not None

    @property
    def size(self) -> Size:
        """What the choice of a backend looks at; before `gathered`."""
        n = self.image.shape[0] * self.settings.world_size
        return Size(n, self.image.shape[1], self.image.device.type, self.listed)

    def gathered(self) -> Batch:
        """Return the rows of all ranks, unit rows for cosines, with the close pairs chosen."""
        settings, image, text, pairs = self.settings, self.image, self.text, self.pairs
        if settings.score == "cosine":
            image, text = unit_rows(image), unit_rows(text)
        image = gather_with_gradient(image, settings.rank, settings.world_size)
        text = gather_with_gradient(text, settings.rank, settings.world_size)
        miner = settings.miner
        if pairs is None and isinstance(miner, (TopK, Multinomial)):
            share = {"rank": settings.rank, "world_size": settings.world_size}
            pairs = select_from_features(image, text, self.scale, miner, generator=settings.generator, **share)
        elif pairs is None and miner is not None:
            with torch.no_grad():
                pairs = miner(image, text, self.scale)
            values = image.device.type == "cpu" and not torch.compiler.is_compiling()
            check_pairs(pairs, image.shape[0], image.device, values=values or settings.checks)
        # In full: torch.compile cannot trace `dataclasses.replace` in torch 2.6.
        return Batch(settings, image, text, self.scale, self.bias, pairs, self.half)
