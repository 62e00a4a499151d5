"""Testing by blocks until a score is known, each drawn where the most is unknown, with intervals for every look."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import optimize, special

from eevee.errors import EeveeError
from eevee.items.irt import fit_abilities, sigmoid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

FIRST = 40
"""Items of the first block, of which the variance is learnt."""
EVEN = 0.3
"""Share of a block that is drawn evenly, whatever the predictor says."""
TRUST = 10.0
PRIOR = 3.0
SMALLEST = 0.02
USUAL = 0.01
"""Half-width at which the interval is tightest where none is wanted."""


class Known(NamedTuple):
    """What is known of a score after some blocks.

    Args:
        value: its estimate, 0 to 1.
        low: end of the interval that holds at every look at once.
        high: the other end.
        items: that were asked.

    Example:
        >>> Known(0.5, 0.4, 0.6, 120).items
        120
    """

    value: float
    low: float
    high: float
    items: int


class AdaptiveTest:
    r"""A test that asks for items by blocks and stops when the score is known well enough.

    Of the items that were not asked, each block draws item i with a chance $\pi_i$ in proportion to the standard
    deviation of its outcome as the outcomes so far predict it, and a share of the block evenly. With the outcomes $y_S$
    so far and the prediction $f$ from them alone, $\hat T = \sum_S y + \sum_R f_i + \sum_B (y_i - f_i) / \pi_i$ has the
    benchmark's sum as its mean whatever the model; blocks are averaged by the inverse of their predicted variances, so
    that the error is a martingale.

    Args:
        total: number of items.
        until: half-width of the interval at which it stops, as a share of 1; 0 for never.
        level: of the intervals, in (0, 1).
        slope: of the items' two-parameter model; without it all items are alike.
        offset: of it.
        most: items to ask at most; all by default.
        seed: of the draws.

    Raises:
        EeveeError: numbers that cannot be used; the message shows them.

    Numerics: the interval is a confidence sequence, valid at all looks together and for any rule of stopping: Robbins'
        normal mixture, tightest at the wanted half-width, around a martingale whose variance is estimated from the
        blocks (by Student's quantile, with three items' worth of the predictor's own word); asymptotic, so measured in
        `benchmarks/adaptive.py`. With every item asked it is the mean itself.

    Example:
        >>> right = np.random.default_rng(0).random(5000) < 0.8
        >>> test = AdaptiveTest(5000, until=0.04)
        >>> while block := test.next_block():
        ...     test.tell(right[block])
        >>> known = test.known()
        >>> known.items < 2500, bool(known.low < right.mean() < known.high)
        (True, True)

    Source: the difference estimator of survey sampling (Särndal, Swensson and Wretman, 1992) with Neyman's allocation;
        active inference (Zrnic and Candès, 2024); Robbins (1970) and time-uniform central limits (Waudby-Smith,
        Arbour, Sinha, Kennedy and Ramdas, 2021) for the sequence.
    """

    def __init__(
        self,
        total: int,
        *,
        until: float,
        level: float = 0.9,
        slope: Float[np.ndarray, " items"] | None = None,
        offset: Float[np.ndarray, " items"] | None = None,
        most: int | None = None,
        seed: int = 0,
    ) -> None:
        if not (0 <= until < 1 and 0 < level < 1 and total >= 1):
            raise EeveeError(
                f"until is {until}, level {level}, total {total}; expected 0 to 1 (a share), between 0 and 1, and 1 or "
                "more"
            )
        self.total, self.until, self.level = total, until, level
        self.most = total if most is None else min(most, total)
        self._slope = np.zeros(total) if slope is None else np.asarray(slope, dtype=np.float64)
        self._offset = np.zeros(total) if offset is None else np.asarray(offset, dtype=np.float64)
        if not len(self._slope) == len(self._offset) == total:
            raise EeveeError(f"{len(self._slope)} slopes and {len(self._offset)} offsets for {total} items")
        self._generator = np.random.default_rng(seed)
        self._outcomes = np.full(total, np.nan)
        self._block = np.zeros(0, dtype=np.int64)
        self._chance = np.zeros(0)
        self._predicted, self._spread = self._predict()
        self._sum = self._information = self._variance = self._freedom = 0.0
        self._low, self._high = 0.0, 1.0
        self._constant, self._mixing = _tightest(1 - level)

    def next_block(self) -> list[int]:
        """Positions of the items to ask next; none where the score is known, or no more items may be asked."""
        if len(self._block):
            raise EeveeError("the outcomes of the last block were not told")
        rest = np.flatnonzero(np.isnan(self._outcomes))
        asked = self.total - len(rest)
        room = min(self.most - asked, len(rest))
        known = self.known()
        if room < 1 or (asked and known.high - known.low <= 2 * self.until):
            return []
        self._predicted, self._spread = self._predict()
        size = min(room, self._size(rest, asked))
        if room - size < FIRST // 4:
            size = room
        self._block, self._chance = self._draw(rest, size)
        return [int(place) for place in self._block]

    def tell(self, outcomes: Sequence[float] | np.ndarray) -> None:
        """Take the outcomes of the last block's items, 0 to 1, in its order.

        Raises:
            EeveeError: as many as were not asked for, or values outside 0 to 1.
        """
        values = np.asarray(outcomes, dtype=np.float64)
        if values.shape != self._block.shape or not ((values >= 0) & (values <= 1)).all():
            raise EeveeError(
                f"outcomes of shape {values.shape}; expected {len(self._block)} numbers from 0 to 1, one for each item "
                "of the block"
            )
        rest = np.isnan(self._outcomes)
        solved, foretold = float(np.nansum(self._outcomes)), float(self._predicted[rest].sum())
        off = (values - self._predicted[self._block]) / self._chance
        mean = (solved + foretold + off.sum()) / self.total
        left = 1 - self._chance
        count = len(values)
        model = float((self._spread[self._block] ** 2 * left / self._chance**2).sum()) / self.total**2
        middle = (left * off).sum() / max(left.sum(), 1e-12)
        seen = float((left * (off - middle) ** 2).sum()) / self.total**2 * count / max(count - 1, 1)
        variance = (count * seen + PRIOR * model) / (count + PRIOR)
        weight = 1 / max(model, 1e-12)
        self._sum += weight * mean
        self._information += weight
        self._variance += weight**2 * variance
        self._freedom += max(count - 1, 1)
        self._outcomes[self._block] = values
        self._block = self._block[:0]
        self._look()

    def known(self) -> Known:
        """The estimate and its interval after the blocks that were told."""
        asked = int((~np.isnan(self._outcomes)).sum())
        if asked == self.total:
            mean = float(self._outcomes.mean())
            return Known(mean, mean, mean, asked)
        value = self._sum / self._information if self._information else 0.5
        return Known(float(np.clip(value, self._low, self._high)), self._low, self._high, asked)

    def _look(self) -> None:
        """Narrow the interval by what the last block told."""
        value = self._sum / self._information
        mixing = (self._constant / (self.until or USUAL)) ** 2 / self._mixing
        spread = self._variance + mixing
        half = math.sqrt(spread * math.log(spread / mixing / (1 - self.level) ** 2)) / self._information
        tail = (1 + self.level) / 2
        half *= special.stdtrit(self._freedom + PRIOR, tail) / special.ndtri(tail)
        solved = float(np.nansum(self._outcomes)) / self.total
        open_share = float(np.isnan(self._outcomes).mean())
        low, high = max(solved, value - half), min(solved + open_share, value + half)
        if max(low, self._low) <= min(high, self._high):
            low, high = max(low, self._low), min(high, self._high)
        self._low, self._high = low, max(low, high)

    def _predict(self) -> tuple[Float[np.ndarray, " items"], Float[np.ndarray, " items"]]:
        """What the outcomes so far say of every item: its mean and its standard deviation."""
        seen = ~np.isnan(self._outcomes)
        y, count = self._outcomes[seen], int(seen.sum())
        ability = np.zeros(1)
        if count and self._slope.any():
            ability = fit_abilities(y[None], np.ones((1, count)), self._slope[seen], self._offset[seen])
        chance = sigmoid(ability[0] * self._slope + self._offset)
        if count:
            off, spread = y - y.mean(), chance[seen] - chance[seen].mean()
            square = (spread**2).mean()
            trust = TRUST / count
            tuned = ((off * spread).mean() + trust * square) / max((1 + trust) * square, 1e-12)
            middle = (y.sum() + PRIOR * chance[seen].mean()) / (count + PRIOR)
            chance = middle + np.clip(tuned, 0, 1) * (chance - chance[seen].mean())
        chance = np.clip(chance, 0.0, 1.0)
        bounded = np.clip(chance, SMALLEST, 1 - SMALLEST)
        return chance, np.sqrt(bounded * (1 - bounded))

    def _size(self, rest: np.ndarray, asked: int) -> int:
        """Items of the next block: what the wanted half-width still needs, at most as many as were asked so far."""
        if asked == 0:
            return min(max(FIRST, self.most // 20), max(self.most // 2, 1))
        share = self._spread[rest] / self.total
        ratio = self._variance / self._information  # what the variance was, of what was predicted
        needed = math.inf if self.until == 0 else ratio * (self._constant / self.until) ** 2 - self._information
        wanted = share.sum() ** 2 / (1 / max(needed, 1e-12) + (share**2).sum())
        return int(np.clip(math.ceil(wanted), FIRST // 4, asked))

    def _draw(self, rest: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """A systematic draw from the items in the order of their predictions, and the chances that it had."""
        if size >= len(rest):
            return rest, np.ones(len(rest))
        order = rest[np.lexsort((self._generator.random(len(rest)), self._predicted[rest]))]
        spread = self._spread[order] if len(rest) < self.total else np.ones(len(order))  # the first block is even
        chance = size * ((1 - EVEN) * spread / spread.sum() + EVEN / len(order))
        for _ in range(20):  # what is sure to be drawn leaves its share to the others
            over = chance >= 1
            if not over.any() or math.isclose(chance.clip(max=1).sum(), size):
                break
            chance = np.where(over, 1.0, chance * (size - over.sum()) / max(chance[~over].sum(), 1e-12))
        chance = np.minimum(chance, 1.0)
        taken = np.diff(np.floor(np.cumsum(chance) + self._generator.random()), prepend=0.0) > 0
        return order[taken], chance[taken]


def _tightest(alpha: float) -> tuple[float, float]:
    """The half-width of the mixture in standard deviations where it is tightest, and the variance there in its own."""

    def squared(x: float) -> float:
        return (1 + 1 / x) * (math.log1p(x) - 2 * math.log(alpha))

    best = optimize.minimize_scalar(squared, bounds=(0.5, 200), method="bounded")
    return math.sqrt(best.fun), float(best.x)
