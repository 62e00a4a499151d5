"""Miners of semantically close pairs: the k best-scoring others of each sample, or a draw from the softmax.

A loss takes pairs; a miner gives them. `TopK` and `Multinomial` are two, and so is any callable of yours from
(image rows, text rows, logit scale) of the whole batch to (p, 2) pairs of indices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from eqsim.checks import check_features, check_positive, check_scores
from eqsim.distributed import gather_rows
from eqsim.features import as_scalar, at_least_float32

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class _Miner:
    """Calls a rule on features; see `TopK` and `Multinomial`."""

    def __call__(
        self,
        image_features: Float[Tensor, "n d"],
        text_features: Float[Tensor, "n d"],
        logit_scale: Tensor | float = 1.0,
        *,
        generator: torch.Generator | None = None,
    ) -> Int[Tensor, "p 2"]:
        """Return the close pairs of one process's batch of features, taken as they are (normalise them for cosines)."""
        check_features(image_features, text_features)
        image, text = at_least_float32(image_features), at_least_float32(text_features)
        scale = as_scalar(logit_scale, image)
        rule = cast("TopK | Multinomial", self)
        return select_from_features(image, text, scale, rule, generator=generator)


@dataclass(frozen=True)
class TopK(_Miner):
    """The best-scoring others of each sample, in both directions.

    Args:
        fraction: share of the other n - 1 samples, in (0, 1]; at least one is taken.
        k: a fixed number instead, >= 1. Give exactly one of the two.

    Example:
        >>> TopK(0.05).count(101), TopK(k=4).count(101)
        (5, 4)
        >>> rows = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> TopK(k=1)(rows, rows).tolist()
        [[0, 1], [1, 0], [2, 1], [0, 1], [1, 0], [2, 1]]

    Source: "EqSim/EqBen" section 3 ("samples with top-k% as close").
    """

    fraction: float | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        if (self.fraction is None) == (self.k is None):
            raise ValueError(f"TopK(fraction={self.fraction!r}, k={self.k!r}): expected exactly one of the two")
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise ValueError(f"TopK(fraction={self.fraction!r}): expected a share in (0, 1]")
        if self.k is not None and (not isinstance(self.k, int) or self.k < 1):
            raise ValueError(f"TopK(k={self.k!r}): expected a whole number >= 1")

    def count(self, n: int) -> int:
        """Return how many others each sample gets in a batch of n."""
        count = self.k if self.k is not None else max(1, round((self.fraction or 0.0) * (n - 1)))
        return min(count, n - 1)


@dataclass(frozen=True)
class Multinomial(_Miner):
    """Draw n others of each sample without replacement, with probability proportional to the softmax of the logits.

    Drawn as the n largest of logits + Gumbel noise, which has exactly that distribution and works where probabilities
    underflow.

    Args:
        n: draws in each direction, >= 1.
        temperature: > 0; the logits are then the scores before `logit_scale`, over this. None takes the logits as they
            are scaled, which a loss on cosines can do only where it is given a scale: cosines themselves differ by so
            little that their softmax is almost flat.

    Raises:
        ValueError: n is no whole number >= 1, or a temperature that is not above 0; shows it.

    Example:
        >>> Multinomial(4, temperature=0.01).count(3)
        2

    Source: the authors' training code (n = 4), which the paper's text does not mention.
    """

    n: int
    temperature: float | None = None

    def __post_init__(self) -> None:
        if self.temperature is not None:
            check_positive(temperature=self.temperature)
        if not isinstance(self.n, int) or self.n < 1:
            raise ValueError(f"Multinomial(n={self.n!r}): expected a whole number >= 1")

    def count(self, n: int) -> int:
        """Return how many others each sample gets in a batch of n."""
        return min(self.n, n - 1)


ClosePairs = TopK | Multinomial
Miner = ClosePairs | Callable[[Tensor, Tensor, Tensor], Tensor]


def draw_scale(close: ClosePairs, scale: Tensor | float) -> Tensor | float:
    """Return what the scores are multiplied by where pairs are chosen: the logits' scale, or one over a temperature."""
    temperature = close.temperature if isinstance(close, Multinomial) else None
    return scale if temperature is None else 1 / temperature


def pick_pairs(
    logits: Float[Tensor, "b n"], own: Int[Tensor, " b"], close: ClosePairs, generator: torch.Generator | None = None
) -> Int[Tensor, "p 2"]:
    """Return each row's own sample with those that are chosen for it; `own[r]` is never chosen itself."""
    logits = at_least_float32(logits).scatter(1, own[:, None], float("-inf"))
    if isinstance(close, Multinomial):
        noise = torch.empty_like(logits).exponential_(generator=generator)
        logits -= noise.log_()
    columns = torch.topk(logits, close.count(logits.shape[1]), dim=1).indices
    return torch.stack([own[:, None].expand_as(columns), columns], dim=-1).reshape(-1, 2)


@torch.no_grad()
def select_close_pairs(
    logits: Float[Tensor, "n n"], close: ClosePairs, *, generator: torch.Generator | None = None
) -> Int[Tensor, "p 2"]:
    """Choose the close pairs of a batch from its logits, in both directions.

    For sample i the list holds (i, j) for the chosen texts j of image i, then (i, j) for the chosen images j of text i,
    so a pair can occur up to four times; v2 counts every occurrence.

    Args:
        logits: (n, n) scaled logits, rows images; only their order matters for TopK, their values for Multinomial
            (cosines, say, with a temperature).
        close: the rule.
        generator: source of the draws of Multinomial (on the logits' device); None uses torch's global one.

    Returns:
        (2 n k, 2) ordered pairs. Equal logits are ordered as `torch.topk` orders them.

    Raises:
        ValueError: logits that are not square.

    Numerics: no gradient, no wait for the device.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[9.0, 1.0, 2.0], [0.0, 9.0, 3.0], [4.0, 5.0, 9.0]])
        >>> select_close_pairs(logits, TopK(k=1)).tolist()
        [[0, 2], [1, 2], [2, 1], [0, 2], [1, 2], [2, 1]]

    Source: "EqSim/EqBen" section 3 for TopK; the authors' code for Multinomial.
    """
    check_scores(logits)
    logits = logits * draw_scale(close, 1.0)
    own = torch.arange(logits.shape[0], device=logits.device)
    return torch.cat([pick_pairs(scores, own, close, generator) for scores in (logits, logits.mT)])


CHUNK_ELEMENTS = 1 << 22


@torch.no_grad()
def select_from_features(
    image: Float[Tensor, "n d"],
    text: Float[Tensor, "n d"],
    scale: Float[Tensor, ""] | float,
    close: ClosePairs,
    *,
    generator: torch.Generator | None = None,
    rank: int = 0,
    counts: tuple[int, ...] = (),
) -> Int[Tensor, "p 2"]:
    """Choose the close pairs of the whole batch a few rows of logits at a time.

    Each rank chooses for its own samples, `counts[rank]` of them, from all; then the lists are put together.
    """
    n = image.shape[0]
    counts = counts or (n,)
    scale = draw_scale(close, scale)
    first, last = sum(counts[:rank]), sum(counts[: rank + 1])
    step = max(1, CHUNK_ELEMENTS // n)
    picked = []
    for queries, keys in ((image, text), (text, image)):
        for start in range(first, last, step):
            own = torch.arange(start, min(start + step, last), device=image.device)
            logits = (queries[start : start + len(own)] @ keys.T).mul_(scale)
            picked.append(pick_pairs(logits, own, close, generator))
    per_sample = 2 * close.count(n)
    return gather_rows(torch.cat(picked), tuple(per_sample * count for count in counts))
