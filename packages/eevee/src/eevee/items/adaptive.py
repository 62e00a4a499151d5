"""Testing by blocks until a score is known, each drawn where the most is unknown, with intervals for every look."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special

from eevee.errors import EeveeError
from eevee.items.drawing import calibrated, doubts, leaned
from eevee.items.irt import fit_abilities, information, sigmoid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

FIRST = 40
"""Items of the first block, of which the variance is learnt."""
EVEN = 0.2
"""Share of a block that is drawn evenly, whatever the predictor says."""
FLAT = 0.1
"""Slope of an item that all models find equally hard."""
PRIOR = 3.0
SMALLEST = 0.02
UNSURE = 6.0
"""Items, half of them solved, that are added to those asked before a deviation is predicted: few events tell little."""
PATHS = 40_000
GROWTH = 2.5
"""How much larger a test is after a block, at most."""
LOOKS = 1.1
"""How much wider than one look's interval the last of a few looks is planned to be."""


class Known(NamedTuple):
    """What is known of a score after some blocks."""

    value: float  # its estimate, 0 to 1
    low: float  # end of the interval that holds at every look at once
    high: float  # the other end
    items: int  # that were asked


class AdaptiveTest:
    r"""A test that asks for items by blocks and stops when the score is known well enough.

    Of the items that were not asked, each block draws item i with a chance $\pi_i$ in proportion to the standard
    deviation of its outcome as the outcomes so far predict it, and a share of the block evenly. With the outcomes $y_S$
    before a block B and a prediction $f$, $\hat T = \sum_S y + \sum_R f_i + \sum_B (y_i - f_i) / \pi_i$ has the
    benchmark's sum as its mean whatever the model; blocks are averaged by the inverse of their predicted variances,
    with f from all outcomes so far (three numbers are fitted, which biases the mean by less than it gains).

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

    Numerics: the intervals hold at all looks together, so whenever the test is stopped: the error probability is spent
        look by look, $\alpha (1 - e^{-2.5 t^3})$ up to the share t of the information that `until` (or `most`) needs,
        and each look's boundary comes from 40,000 paths of the Brownian motion that the estimate is in the limit. Its
        variance is estimated from the blocks (by Student's quantile), and taken to be no less than the predictor
        expects; asymptotic, so measured in `benchmarks/adaptive.py`. With every item asked it is the mean itself.

    Example:
        >>> right = np.random.default_rng(0).random(5000) < 0.8
        >>> test = AdaptiveTest(5000, until=0.04)
        >>> while block := test.next_block():
        ...     test.tell(right[block])
        >>> known = test.known()
        >>> known.items < 1000, bool(known.low < right.mean() < known.high)
        (True, True)

    Source: the difference estimator of survey sampling (Särndal, Swensson and Wretman, 1992) with Neyman's allocation;
        active inference (Zrnic and Candès, 2024); repeated confidence intervals (Jennison and Turnbull, 1989) with an
        error-spending function (Lan and DeMets, 1983).
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
        self._model, self._doubt = 0.5, math.inf
        self._outcomes = np.full(total, np.nan)
        self._block = np.zeros(0, dtype=np.int64)
        self._chance = np.zeros(0)
        self._predicted, self._spread = self._predict()
        self._blocks: list[tuple[np.ndarray, np.ndarray]] = []
        self._value, self._deviation, self._ratio, self._freedom = 0.5, math.inf, 1.0, 0.0
        self._low, self._high = 0.0, 1.0
        self._boundary = _Boundary(1 - level)
        self._critical = LOOKS * special.ndtri((1 + level) / 2)

    def next_block(self) -> list[int]:
        """Positions of the items to ask next; none where the score is known, or no more items may be asked."""
        if len(self._block):
            raise EeveeError("the outcomes of the last block were not told")
        unasked = np.flatnonzero(np.isnan(self._outcomes))
        count = self.total - len(unasked)
        room = min(self.most - count, len(unasked))
        score = self.known()
        if room < 1 or (count and score.high - score.low <= 2 * self.until):
            return []
        size = min(room, self._size(unasked, count))
        if room - size < FIRST // 4:
            size = room
        self._block, self._chance = self._draw(unasked, size)
        return [int(item) for item in self._block]

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
        self._outcomes[self._block] = values
        self._blocks.append((self._block, self._chance))
        self._block = self._block[:0]
        self._predicted, self._spread = self._predict()
        self._estimate()
        self._look()

    def known(self) -> Known:
        """The estimate and its interval after the blocks that were told."""
        count = int((~np.isnan(self._outcomes)).sum())
        if count == self.total:
            mean = float(self._outcomes.mean())
            return Known(mean, mean, mean, count)
        value = leaned(*map(np.asarray, (self._value, self._deviation, self._model, self._doubt))) if count else 0.5
        return Known(float(np.clip(value, self._low, self._high)), self._low, self._high, count)

    def _estimate(self) -> None:
        """The mean of what each block says by today's predictor, weighted by its expected variance."""
        solved, predicted = 0.0, float(self._predicted.sum())
        weights, means = [], []
        surprise, freedom = PRIOR, PRIOR
        for items, chance in self._blocks:
            values, spread, count = self._outcomes[items], self._spread[items], len(items)
            off, undrawn = (values - self._predicted[items]) / chance, 1 - chance
            means.append((solved + predicted + off.sum()) / self.total)
            expected = max(float((undrawn * (spread / chance) ** 2).sum()) / self.total**2, 1e-12)
            middle = (undrawn * off).sum() / max(undrawn.sum(), 1e-12)
            observed = float((undrawn * (off - middle) ** 2).sum()) / self.total**2 * count / max(count - 1, 1)
            surprise, freedom = surprise + count * observed / expected, freedom + count
            weights.append(1 / expected)
            solved, predicted = solved + values.sum(), predicted - self._predicted[items].sum()
        information = sum(weights)
        self._ratio = max(surprise / freedom, 1.0)  # what the variance is, of what was expected
        self._value = float(np.dot(weights, means)) / information
        self._deviation = math.sqrt(self._ratio / information)
        self._freedom = sum(max(len(items) - 1, 1) for items, _ in self._blocks)

    def _look(self) -> None:
        """Narrow the interval by what the blocks say."""
        value, deviation = self._value, max(self._deviation, 1e-12)
        unasked = float(np.isnan(self._outcomes).mean())
        planned = (self.until / self._critical) ** 2
        share = planned / deviation**2 if self.until else (1 - unasked) * self.total / self.most
        tail = (1 + self.level) / 2
        student = special.stdtrit(self._freedom + PRIOR, tail) / special.ndtri(tail)
        half = deviation * student * self._boundary.next(deviation**-2, share)
        solved = float(np.nansum(self._outcomes)) / self.total
        low, high = max(solved, value - half), min(solved + unasked, value + half)
        if max(low, self._low) <= min(high, self._high):
            low, high = max(low, self._low), min(high, self._high)
        self._low, self._high = low, max(low, high)

    def _predict(self) -> tuple[Float[np.ndarray, " items"], Float[np.ndarray, " items"]]:
        """What the outcomes so far say of every item: its mean and its standard deviation."""
        measured = ~np.isnan(self._outcomes)
        y, count = self._outcomes[measured], int(measured.sum())
        ability = np.zeros(1)
        if count and self._slope.any():
            ability = fit_abilities(y[None], np.ones((1, count)), self._slope[measured], self._offset[measured])
        chance = sigmoid(ability[0] * self._slope + self._offset)
        if count:
            slope, error, _ = calibrated(y[None], chance[None, measured])
            fisher = information(ability, measured[None].astype(np.float64), self._slope, self._offset)
            self._model = float(y.sum() + chance[~measured].sum()) / self.total
            self._doubt = float(doubts(slope, error, ability, fisher)[0])
            middle = (y.sum() + PRIOR * chance[measured].mean()) / (count + PRIOR)
            chance = middle + np.clip(slope[0], 0, 1) * (chance - chance[measured].mean())
        chance = np.clip(chance, 0.0, 1.0)
        shrunk = np.clip((count * chance + UNSURE / 2) / (count + UNSURE), SMALLEST, 1 - SMALLEST)
        return chance, np.sqrt(shrunk * (1 - shrunk))

    def _size(self, unasked: np.ndarray, count: int) -> int:
        """Items of the next block: what the wanted half-width still needs, at most as many as were asked so far."""
        if count == 0:
            return min(max(FIRST, self.most // 50), max(self.most // 2, 1))
        variance, share = (self._spread[unasked] / self.total) ** 2, self._shares(unasked)
        needed = np.inf if self.until == 0 else ((self._critical / self.until) ** 2 - self._deviation**-2) * self._ratio
        size = (variance / share).sum() / (1 / max(needed, 1e-12) + variance.sum())
        growth = (count + size) / count
        blocks = max(1, math.ceil(math.log(growth, GROWTH)))  # few looks, none of them close to the last
        return int(max(count // 10, math.ceil(count * growth ** (1 / blocks)) - count))

    def _shares(self, items: np.ndarray) -> np.ndarray:
        """Each item's share of a block: by the deviation of its outcome and by how its chance moves with ability."""
        wish = self._spread[items] ** 1.5 * np.sqrt(np.maximum(self._slope[items], FLAT))
        return np.asarray((1 - EVEN) * wish / wish.sum() + EVEN / len(items))

    def _draw(self, unasked: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """A systematic draw from the items in the order of their predictions, and the chances that it had."""
        if size >= len(unasked):
            return unasked, np.ones(len(unasked))
        order = unasked[np.lexsort((self._generator.random(len(unasked)), self._predicted[unasked]))]
        first = len(unasked) == self.total  # which is even
        chance = np.full(len(order), size / len(order)) if first else size * self._shares(order)
        for _ in range(20):  # what is sure to be drawn leaves its share to the others
            over = chance >= 1
            if not over.any() or math.isclose(chance.clip(max=1).sum(), size):
                break
            chance = np.where(over, 1.0, chance * (size - over.sum()) / max(chance[~over].sum(), 1e-12))
        chance = np.minimum(chance, 1.0)
        drawn = np.diff(np.floor(np.cumsum(chance) + self._generator.random()), prepend=0.0) > 0
        return order[drawn], chance[drawn]


class _Boundary:
    """Critical values of a Brownian motion look by look, crossed by a share of its paths that was spent."""

    def __init__(self, alpha: float) -> None:
        self._alpha = alpha
        self._paths = np.zeros(PATHS)  # those that crossed no boundary yet
        self._time = 0.0
        self._generator = np.random.default_rng(0)

    def next(self, time: float, share: float) -> float:
        """The critical value at the next look: at this time, with so much of the planned information."""
        step = math.sqrt(max(time - self._time, 0.0))
        self._paths = self._paths + step * self._generator.standard_normal(len(self._paths))
        self._time = max(time, self._time)
        staying = math.ceil(PATHS * (1 - self._alpha * (1 - math.exp(-2.5 * share**3))))
        size = np.abs(self._paths)
        if staying >= len(size):
            return float(size.max() / math.sqrt(self._time))
        boundary = np.partition(size, staying - 1)[staying - 1]
        self._paths = self._paths[size <= boundary]
        return float(boundary / math.sqrt(self._time))
