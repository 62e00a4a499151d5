"""A batch as the backends take it, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import torch

from eqsim.checks import check_pairs
from eqsim.close_pairs import Multinomial, TopK, select_from_features
from eqsim.distributed import gather_rows, gather_with_gradient
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
    """

    n: int
    d: int
    device: str
    listed: bool


class Parts(NamedTuple):
    """What one pass over the batch gives: the terms of EqSim, and where asked for the other losses, unweighted."""

    contrastive: Tensor | None
    terms: Terms
    pair: Tensor | None = None
    hard: Tensor | None = None
    keep: Tensor | None = None


class Teacher(NamedTuple):
    """The features of a frozen model for the same images and texts, of any width, and its scale."""

    image: Tensor
    text: Tensor
    scale: Tensor


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch to be computed, in float32 or float64 and without autocast: rows of this rank until `gathered`.

    The texts after the first n are negatives, the i-th of them the image `owners[i]`'s. `pairs` are indices into the
    whole batch; `half` is 1 where the caller's features were bfloat16, 2 for float16; `rows` are those of each rank.
    """

    settings: Settings
    image: Tensor
    text: Tensor
    scale: Tensor
    bias: Tensor | None = None
    pairs: Tensor | None = None
    half: int = 0
    owners: Tensor | None = None
    teacher: Teacher | None = None
    rows: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(
        cls,
        settings: Settings,
        image: Tensor,
        text: Tensor,
        scale: Tensor | float,
        bias: Tensor | float | None,
        pairs: Tensor | None,
        owners: Tensor | None = None,
        teacher: tuple[Tensor, Tensor, Tensor | float] | None = None,
        rows: tuple[tuple[int, int], ...] = (),
    ) -> Self:
        """Take a loss's arguments as they are, in any precision."""
        half = HALF_CODES.get(image.dtype, 0)
        image, text = at_least_float32(image), at_least_float32(text)
        offset = None if bias is None or settings.contrast != "sigmoid" else as_scalar(bias, image)
        frozen = None
        if teacher is not None and settings.keep_weight > 0:
            theirs = [features.detach().to(image) for features in teacher[:2]]
            frozen = Teacher(theirs[0], theirs[1], as_scalar(teacher[2], image).detach())
        rows = rows or ((image.shape[0], text.shape[0] - image.shape[0]),)
        return cls(settings, image, text, as_scalar(scale, image), offset, pairs, half, owners, frozen, rows)

    @property
    def listed(self) -> bool:
        """Whether there is a list of close pairs, or will be."""
        return self.pairs is not None or self.settings.miner is not None

    @property
    def size(self) -> Size:
        """What the choice of a backend looks at; before `gathered`."""
        n = sum(images for images, _ in self.rows) or self.image.shape[0]
        return Size(n, self.image.shape[1], self.image.device.type, self.listed)

    def gathered(self) -> Batch:
        """Return the rows of all ranks, unit rows for cosines, with the close pairs chosen."""
        settings, image, text, pairs, teacher = self.settings, self.image, self.text, self.pairs, self.teacher
        unit = settings.score == "cosine"
        if unit:
            image, text = unit_rows(image), unit_rows(text)
        owners = self.owners
        counts = tuple(images for images, _ in self.rows)
        if len(counts) > 1:
            first, negatives = image.shape[0], tuple(beyond for _, beyond in self.rows)
            image = gather_with_gradient(image, settings.rank, counts)
            text = self._texts(text, first, counts, negatives)
            if teacher is not None:
                of_teacher = gather_rows(teacher.image, counts), self._texts(teacher.text, first, counts, negatives)
                teacher = Teacher(*of_teacher, teacher.scale)
            if settings.hard_weight > 0 and any(negatives):
                # A rank without negatives takes part in the gather all the same.
                owners = torch.empty(0, dtype=torch.int64, device=image.device) if owners is None else owners
                owners = gather_rows(owners + sum(counts[: settings.rank]), negatives)
        if teacher is not None and unit:
            teacher = Teacher(unit_rows(teacher.image), unit_rows(teacher.text), teacher.scale)
        miner, own = settings.miner, text[: image.shape[0]]
        if pairs is None and isinstance(miner, (TopK, Multinomial)):
            pairs = select_from_features(
                image, own, self.scale, miner, generator=settings.generator, rank=settings.rank, counts=counts
            )
        elif pairs is None and miner is not None:
            with torch.no_grad():
                pairs = miner(image, own, self.scale)
            check_pairs(pairs, image.shape[0], image.device)
        # In full: torch.compile cannot trace `dataclasses.replace` in torch 2.6.
        return Batch(settings, image, text, self.scale, self.bias, pairs, self.half, owners, teacher, self.rows)

    def _texts(self, text: Tensor, n: int, counts: tuple[int, ...], negatives: tuple[int, ...]) -> Tensor:
        """All ranks' matching texts, then all their negatives."""
        rank = self.settings.rank
        own = gather_with_gradient(text[:n], rank, counts)
        if not any(negatives):
            return own
        return torch.cat([own, gather_with_gradient(text[n:], rank, negatives)])
