"""Ranks that say who is tied: simultaneous intervals of every model's place, on other tasks or on other test items.

One file of more than 400 lines: the two kinds of resampling share their intervals and their ties.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from eevee.algebra import one_thread
from eevee.errors import EeveeError
from eevee.tables.checking import shares_warning
from eevee.tables.serialization import Recorded, plain_data
from eevee.tables.standard import standardise
from eevee.tables.table import require_table
from wary_files.errors import whole_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jaxtyping import Bool, Float, Int

    from eevee.items.outcomes import Outcomes
    from eevee.progress import Progress
    from eevee.tables.table import ResultTable

Question = Literal["tasks", "items"]
FEWEST_TASKS = 3
"""That two models must share, for an interval of their difference."""
_STEPS = 2000
"""Of Newton at most; boards of equal models take three."""
_NEAR = 12.0
"""Strengths that lie no further apart leave two digits of 1 minus a chance."""
_PRIOR = 0.5
"""Wins that each model of a pair is given beforehand: one that wins every task has no finite strength otherwise."""
_STRENGTH_RESAMPLES = 200
_CELLS = 500_000
"""Numbers of drawn boards that are held at a time: 4 MB, of which there are some copies."""
_BLOCKS = 4
"""Of models, for whose pairs a draw's values are formed together."""
_INDEPENDENT = 0.5
"""Share of independent models in the covariance of a board: of few tasks its own has the models too much alike."""


@dataclass(frozen=True)
class Place(Recorded):
    """One model on a board."""

    model: str  # its id
    first: int  # best rank that the data allow
    last: int  # worst one
    score: float  # mean over its tasks, in standard deviations of each task over the models; of outcomes, their mean
    borda: float  # share of the others that it beats, over tasks, ties counting half
    mean_rank: float  # over its tasks, 1 for the best; equal values share their ranks
    strength: float  # Bradley and Terry's, on a logarithmic scale with mean 0
    strength_low: float  # lower end of its interval over tasks
    strength_high: float  # upper end
    tasks: int  # that it was measured on


@dataclass(frozen=True)
class Ranking(Recorded):
    """A ranking with what is not decided in it.

    Args:
        name: of the table.
        question: ``tasks``: would it hold on other tasks like these? ``items``: on other test items of these tasks?
        level: probability with which all intervals hold at once.
        places: of all models, by score.
        decided: pairs whose order is decided, of all pairs.
        pairs: all of them.
        apart: pairs that share too few tasks to be compared.
        notes: what else must be known, such as models in another unit than the others.

    Example:
        >>> from eevee import load_table
        >>> board = rank_models(load_table("gate"))
        >>> len(board.places), board.places[0].first, board.places[0].last > 1
        (21, 1, True)
        >>> board.to_frame()  # doctest: +SKIP
    """

    name: str
    question: Question
    level: float
    places: tuple[Place, ...]
    decided: int
    pairs: int
    apart: int
    notes: tuple[str, ...] = ()

    def _rows(self) -> list[dict[str, Any]]:
        return [plain_data(place) for place in self.places]

    @property
    def leaders(self) -> tuple[str, ...]:
        """The models that may be the best."""
        return tuple(place.model for place in self.places if place.first == 1)


@whole_numbers("resamples", "seed", error=EeveeError)
def rank_models(
    table: ResultTable,
    *,
    level: float = 0.95,
    resamples: int = 4000,
    seed: int = 0,
    progress: Progress | None = None,
) -> Ranking:
    r"""Rank the models of a table, and say how far the order would hold on other tasks like these.

    With $d_b$ the difference of two models on benchmark b (in standard deviations over the models, metrics of one
    benchmark averaged), all pairs have $\bar d \pm c\, s / \sqrt{n}$ at once: c is the `level` quantile of the largest
    $|t|$ over pairs, on drawn boards of equal models with this one's gaps and covariance. Pairs that are decided
    leave, and c is taken anew for the others, until nothing more is decided. A model's best rank counts those surely
    above it, its worst those surely below.

    Args:
        table: two models are compared on the tasks that both were measured on; one with missing tasks has a wider
            interval, not the last place.
        level: in (0, 1), of all intervals together.
        resamples: draws for c.
        seed: of the draws.
        progress: called after a few draws each.

    Raises:
        EeveeError: `level` or `resamples` out of range, fewer than three benchmarks, or models of which no two share
            three.

    Numerics: draws are made a few at a time, and those near the quantile again for later steps, so that memory does not
        grow with draws times pairs. Normal scores are assumed for c; half of the covariance is that of independent
        models of equal variance, since that of 31 tasks alone makes c too small (`benchmarks/ranks.py`).

    Example:
        >>> from eevee import load_table
        >>> rank_models(load_table("gate")).question
        'tasks'

    Source: Mogstad, Romano, Shaikh and Wilhelm, Inference for ranks with applications to mobility across
        neighbourhoods and academic achievement across countries (2024), with draws of normal boards for the bootstrap;
        Romano and Wolf (2005) for the steps. Bradley and Terry (1952), with half a win for each of a pair beforehand.
    """
    require_table(table)
    _check(level, resamples)
    scores = _by_task(table)
    if scores.shape[1] < FEWEST_TASKS:
        raise EeveeError(f"{table.name} has {scores.shape[1]} benchmarks; ranks need at least {FEWEST_TASKS}")
    first, second = np.triu_indices(len(scores), 1)
    measured = ~np.isnan(scores)
    count = (measured.astype(np.int64) @ measured.T)[first, second]
    comparable = count >= FEWEST_TASKS
    if not comparable.any():
        raise EeveeError(f"{table.name}: no two models share {FEWEST_TASKS} tasks: there is nothing to rank them by")
    differences = scores[first] - scores[second]
    mean = np.nanmean(np.where(comparable[:, None], differences, 0.0), axis=1)
    t = _t_of_pairs(np.where(measured, scores, 0.0)[None], measured)[0]
    largest = functools.partial(_largest_of_tasks, scores, seed)
    with one_thread():
        decided = _decided(t, largest, comparable, level, len(scores), resamples, progress)
        signs = np.sign(mean).astype(np.int64) * decided
        board = _board(
            table.name, "tasks", level, table.models, scores, first, second, signs, int((~comparable).sum()), seed
        )
    return replace(board, notes=tuple(filter(None, [shares_warning(table)])))


@whole_numbers("resamples", "seed", error=EeveeError)
def rank_outcomes(
    outcomes: Mapping[str, Outcomes],
    *,
    level: float = 0.95,
    resamples: int = 4000,
    seed: int = 0,
    progress: Progress | None = None,
) -> Ranking:
    r"""Rank models by their mean score over benchmarks, and say how far the order would hold on other test items.

    As `rank_models`; the errors are those of means over items, which pairs of models share: their covariance over
    items, divided by the number of items, is summed over benchmarks. A pair's $t$ counts as the normal number of the
    same probability under Student's distribution, whose degrees of freedom are Welch's. If two models differ on k
    items, it is at least $2^{1 - k}$, the least that all exchanges of their outcomes give.

    Args:
        outcomes: of the same models, as `eevee.read_outcomes` gives them; items that some model lacks are left out, and
            outcomes of which lower ones are better count as one less them.
        level: in (0, 1), of all intervals together.
        resamples: draws for c.
        seed: of the draws.
        progress: called after a few draws each.

    Raises:
        EeveeError: benchmarks of other models, or fewer than two items that all models share.

    Source: Welch, Biometrika 34, 1947, for the degrees of freedom of a sum over benchmarks.

    Example:
        >>> import numpy as np
        >>> from eevee import Outcomes
        >>> right = np.random.default_rng(0).random((5, 400)) < np.array([.9, .6, .6, .5, .2])[:, None]
        >>> toy = Outcomes("toy", tuple("abcde"), tuple(map(str, range(400))), right.astype(float))
        >>> rank_outcomes({"toy": toy}).leaders
        ('a',)
    """
    _check(level, resamples)
    boards = list(outcomes.values())
    if not boards:
        raise EeveeError("no benchmark with outcomes of single items")
    models = boards[0].models
    first, second = np.triu_indices(len(models), 1)
    covariance = np.zeros((len(models), len(models)))
    scores, items = np.empty((len(models), len(boards))), 0
    squares, unlike = np.zeros(len(first)), np.zeros(len(first))
    for column, board in enumerate(boards):
        if board.models != models:
            raise EeveeError(f"benchmark {board.benchmark!r}: expected the models of {boards[0].benchmark!r}, in order")
        values = board.values[:, ~np.isnan(board.values).any(0)]
        if values.shape[1] < 2:
            raise EeveeError(f"benchmark {board.benchmark!r}: {values.shape[1]} items that all models share")
        values = values if board.direction == "higher" else 1 - values
        scores[:, column] = values.mean(1)
        own = np.cov(values) / values.shape[1] / len(boards) ** 2
        covariance += own
        items += values.shape[1]
        squares += _of_pairs(own, first, second) ** 2 / (values.shape[1] - 1)
        unlike += np.concatenate([(values[at] != values[at + 1 :]).sum(1) for at in range(len(models) - 1)])
    mean = (scores[first] - scores[second]).mean(1)
    spread = np.sqrt(np.maximum(_of_pairs(covariance, first, second), 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(spread > 0, mean / spread, np.where(mean == 0, 0.0, np.copysign(np.inf, mean)))
        freedom = np.where(squares > 0, spread**4 / squares, items - len(boards))
    t = _as_normal(np.abs(t), freedom, unlike)
    noise = _less_alike(covariance, min(_INDEPENDENT, len(models) / items))
    errors = np.zeros((len(models), len(models)))
    errors[first, second] = np.sqrt(_of_pairs(noise, first, second))
    largest = functools.partial(_largest_of_noise, _root(noise), errors, seed)
    with one_thread():
        decided = _decided(t, largest, np.ones(len(mean), bool), level, len(models), resamples, progress)
        signs = np.sign(mean).astype(np.int64) * decided
        return _board(", ".join(outcomes), "items", level, models, scores, first, second, signs, 0, seed)


def _less_alike(covariance: Float[np.ndarray, "m m"], share: float) -> Float[np.ndarray, "m m"]:
    """A covariance of which a share is that of independent models: of few items its own has the models too much alike.

    Where no model's outcomes vary, all of it is.
    """
    variance = float(np.trace(covariance)) / len(covariance)
    return np.asarray((1 - share) * covariance + (share * variance or 1.0) * np.eye(len(covariance)))


def _as_normal(
    t: Float[np.ndarray, " p"], freedom: Float[np.ndarray, " p"], unlike: Float[np.ndarray, " p"]
) -> Float[np.ndarray, " p"]:
    """Normal numbers of the same probabilities as Student's |t|, which no exchange of unlike outcomes undercuts."""
    from scipy.stats import norm
    from scipy.stats import t as student

    return np.asarray(np.maximum(norm.isf(np.maximum(student.sf(t, freedom), 0.5**unlike)), 0.0))


def _check(level: float, resamples: int) -> None:
    if not 0 < level < 1:
        raise EeveeError(f"level is {level}; expected a number between 0 and 1")
    if resamples < 100:
        raise EeveeError(f"resamples is {resamples}; expected at least 100")


def _by_task(table: ResultTable) -> Float[np.ndarray, "models tasks"]:
    """Standardised scores, higher for better, the mean over a benchmark's metrics; NaN where none was measured."""
    data = standardise(table)
    values = np.where(data.mask, data.values * data.signs, 0.0)
    columns = [
        np.where(data.mask[:, own].any(1), values[:, own].sum(1) / np.maximum(data.mask[:, own].sum(1), 1), np.nan)
        for own in map(list, data.columns)
    ]
    return np.stack(columns, axis=1)


def _of_pairs(
    covariance: Float[np.ndarray, "m m"], first: Int[np.ndarray, " p"], second: Int[np.ndarray, " p"]
) -> Float[np.ndarray, " p"]:
    """Variance of each pair's difference."""
    variance = np.diag(covariance)
    return np.asarray(variance[first] + variance[second] - 2 * covariance[first, second])


def _root(covariance: Float[np.ndarray, "m m"]) -> Float[np.ndarray, "m m"]:
    """A matrix whose product with its transpose is the covariance, or the nearest one."""
    sizes, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(sizes, 0.0)))


def _t_of_pairs(scores: Float[np.ndarray, "r m n"], measured: Bool[np.ndarray, "m n"]) -> Float[np.ndarray, "r p"]:
    """Student's |t| of each pair of models over the tasks that both have; 0 where they share fewer than two."""
    first, second = np.triu_indices(len(measured), 1)
    mask = measured.astype(np.float64)
    scores = scores * mask
    count = np.maximum((mask @ mask.T)[first, second], 1)
    sums, squares = scores @ mask.T, scores**2 @ mask.T
    total = sums[:, first, second] - sums[:, second, first]
    square = squares[:, first, second] + squares[:, second, first]
    square = square - 2 * (scores @ scores.swapaxes(1, 2))[:, first, second]
    rounding = 1e-12 * np.maximum(square, 1e-300)
    variance = np.where(square - total**2 / count > rounding, square - total**2 / count, 0.0) / np.maximum(count - 1, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(total) / np.sqrt(count * variance)
    return np.asarray(np.where(np.isnan(t) | (count < 2), 0.0, t))


def _largest_of_tasks(
    scores: Float[np.ndarray, "m n"],
    seed: int,
    undecided: Bool[np.ndarray, "m m"],
    numbers: Int[np.ndarray, " r"],
    drawn_more: Callable[[int], None],
) -> Float[np.ndarray, " r"]:
    """On boards of equal models, with the gaps and covariance of these.

    Boards are drawn and forgotten a few at a time: all of them would be resamples times models squared.

    Numerics: float32, for scores of mean 0 and t to six digits.
    """
    measured = ~np.isnan(scores)
    centred = np.where(measured, scores - np.nanmean(scores, axis=1, keepdims=True), 0.0)
    shared, tasks = measured.astype(np.float64) @ measured.T, scores.shape[1]
    mask, whole = measured.astype(np.float32), bool(measured.all())
    if whole:  # the covariance's own root has as many columns as there are tasks
        root, variance = centred / np.sqrt(tasks - 1), (centred**2).sum() / (tasks - 1) / len(scores)
        root = np.sqrt(1 - _INDEPENDENT) * root
        own = np.float32(np.sqrt(_INDEPENDENT * variance))
    else:
        covariance = centred @ centred.T / np.maximum(shared - 1, 1)
        alike = np.trace(covariance) / len(scores) * np.eye(len(scores))
        root, own = _root((1 - _INDEPENDENT) * covariance + _INDEPENDENT * alike), np.float32(0)
    root = root.astype(np.float32)
    freedom = np.where(undecided | undecided.T, shared - 1, 0.0).astype(np.float32)
    shared = shared.astype(np.float32)
    largest = []
    for part in _parts(numbers, scores.size + len(scores) ** 2 // _BLOCKS):
        noise = _noise(seed, part, (root.shape[1] + (len(scores) if whole else 0), tasks))
        drawn = root @ noise[:, : root.shape[1]]
        drawn = drawn + own * noise[:, root.shape[1] :] if whole else drawn * mask
        largest.append(np.sqrt(_largest_square(drawn, None if whole else mask, freedom, shared)))
        drawn_more(len(part))
    return np.concatenate(largest).astype(np.float64)


def _largest_square(
    drawn: Float[np.ndarray, "r m n"],
    mask: Float[np.ndarray, "m n"] | None,
    freedom: Float[np.ndarray, "m m"],
    shared: Float[np.ndarray, "m m"],
) -> Float[np.ndarray, " r"]:
    """The largest squared t over pairs; products of matrices hold the sums, so that few passes go over all pairs.

    Args:
        drawn: boards, 0 where nothing was measured.
        mask: what was measured, None for all of it: pairs are then about each model's mean, with the same freedom.
        freedom: tasks that a pair shares less one, 0 for pairs that do not count.
        shared: tasks that a pair shares.
    """
    top = np.zeros(len(drawn), dtype=np.float32)
    if mask is None:
        mean = drawn.mean(-1)
        centred = drawn - mean[..., None]
        norm, unit = (centred**2).sum(-1, keepdims=True), np.ones((*mean.shape, 1), dtype=np.float32)
        left = np.concatenate([centred, norm, unit], axis=-1)
        right = np.concatenate([-2 * centred, unit, norm], axis=-1)
        alike = np.float32(freedom.max()) * np.float32(drawn.shape[-1])
    else:
        given = np.broadcast_to(mask, drawn.shape)
        left = np.concatenate([drawn**2, given, drawn], axis=-1)
        right = np.concatenate([given, drawn**2, -2 * drawn], axis=-1)
        sum_left, sum_right = np.concatenate([drawn, -given], axis=-1), np.concatenate([given, drawn], axis=-1)
    for rows, columns in _upper(drawn.shape[1]):
        square = left[:, rows] @ right[:, columns].swapaxes(1, 2)
        total = (
            mean[:, rows, None] - mean[:, None, columns]
            if mask is None
            else sum_left[:, rows] @ sum_right[:, columns].swapaxes(1, 2)
        )
        total *= total
        if mask is not None:
            square *= shared[rows, columns]
            square -= total  # n squared times the variance of the differences
        np.maximum(square, np.float32(1e-30), out=square)
        total /= square
        if mask is not None or not freedom[rows, columns].all():
            total *= freedom[rows, columns] if mask is not None else freedom[rows, columns] > 0
        np.maximum(top, total.reshape(len(drawn), -1).max(1), out=top)
    return top * alike if mask is None else top


def _upper(count: int) -> Iterator[tuple[slice, slice]]:
    """Blocks of a symmetric matrix that hold its upper triangle."""
    step = -(-count // _BLOCKS)
    for start in range(0, count, step):
        yield slice(start, start + step), slice(start, count)


def _largest_of_noise(
    root: Float[np.ndarray, "m m"],
    spread: Float[np.ndarray, "m m"],
    seed: int,
    undecided: Bool[np.ndarray, "m m"],
    numbers: Int[np.ndarray, " r"],
    drawn_more: Callable[[int], None],
) -> Float[np.ndarray, " r"]:
    """The largest gap of normal noise, in standard errors; a few draws at a time."""
    weight, largest = np.where(undecided & (spread > 0), 1 / np.where(spread > 0, spread, 1.0), 0.0), []
    for part in _parts(numbers, len(root) ** 2):
        noise = _noise(seed, part, (len(root),)).astype(np.float64) @ root.T
        gaps = np.abs(noise[:, :, None] - noise[:, None]) * weight
        largest.append(gaps.reshape(len(part), -1).max(1))
        drawn_more(len(part))
    return np.concatenate(largest)


def _noise(seed: int, numbers: Int[np.ndarray, " r"], shape: tuple[int, ...]) -> Float[np.ndarray, "r ..."]:
    """Standard normal numbers of some draws; each has a generator of its own, so that it can be made again."""
    out = np.empty((len(numbers), *shape), dtype=np.float32)
    for row, number in zip(out, numbers, strict=True):
        np.random.default_rng([seed, int(number)]).standard_normal(dtype=np.float32, out=row)
    return out


def _parts(numbers: Int[np.ndarray, " r"], cells: int) -> list[Int[np.ndarray, " s"]]:
    """Draws of so many cells each, in parts that are held at a time."""
    step = max(1, _CELLS // cells)
    return [numbers[start : start + step] for start in range(0, len(numbers), step)]


def _decided(
    t: Float[np.ndarray, " p"],
    largest: Callable[[Bool[np.ndarray, "m m"], Int[np.ndarray, " r"], Callable[[int], None]], Float[np.ndarray, " r"]],
    comparable: Bool[np.ndarray, " p"],
    level: float,
    count: int,
    resamples: int,
    progress: Progress | None,
) -> Bool[np.ndarray, " p"]:
    """Which pairs' differences are decided, by |t| and `largest` of the undecided ones.

    A pair that leaves can only lower a draw's largest |t|: its value with more pairs bounds it, so that only draws near
    the quantile are made again.
    """
    upper = np.triu_indices(count, 1)
    undecided, bounds = comparable.copy(), np.full(resamples, np.inf)
    above = resamples - int(np.ceil(level * (resamples - 1)))  # so many values are at or above the quantile
    done = expected = 0

    def drawn_more(draws: int) -> None:
        nonlocal done
        done += draws
        if progress is not None:
            progress("draws", done, expected)

    while undecided.any():
        matrix = np.zeros((count, count), dtype=bool)
        matrix[upper] = undecided
        exact = np.zeros(resamples, dtype=bool)
        while True:
            first = np.argsort(-bounds, kind="stable")[:above]
            missing = first[~exact[first]]
            if not len(missing):
                break
            expected = max(resamples, done + len(missing))
            bounds[missing] = np.minimum(bounds[missing], largest(matrix, missing, drawn_more))
            exact[missing] = True
        new = undecided & (t > bounds[first[-1]])
        if not new.any():
            break
        undecided &= ~new
    return np.asarray(comparable & ~undecided)


def _board(
    name: str,
    question: Question,
    level: float,
    models: tuple[str, ...],
    scores: Float[np.ndarray, "m n"],
    first: Int[np.ndarray, " p"],
    second: Int[np.ndarray, " p"],
    signs: Int[np.ndarray, " p"],
    apart: int,
    seed: int,
) -> Ranking:
    count = len(models)
    above = np.bincount(first[signs < 0], minlength=count) + np.bincount(second[signs > 0], minlength=count)
    below = np.bincount(first[signs > 0], minlength=count) + np.bincount(second[signs < 0], minlength=count)
    wins = _wins(scores)
    strength = _strengths(wins.sum(0))
    chosen = np.random.default_rng(seed).integers(0, len(wins), (_STRENGTH_RESAMPLES, len(wins)))
    times = np.stack([np.bincount(rows, minlength=len(wins)) for rows in chosen])
    resampled = np.empty((len(times), count))
    flat, times = wins.astype(np.float32).reshape(len(wins), -1), times.astype(np.float32)  # halves: exact
    for rows in _parts(np.arange(len(times)), count**2):
        part = (times[rows] @ flat).reshape(-1, count, count)
        resampled[rows] = _strengths(part, strength)
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2], axis=0)
    played = np.maximum((wins + wins.transpose(0, 2, 1)).sum((0, 2)), 1e-12)
    borda = wins.sum((0, 2)) / played
    ranks = 1 + (wins.transpose(0, 2, 1)).sum(2)  # the others' wins, ties half
    measured = ~np.isnan(scores)
    mean_rank = np.where(measured.T, ranks, 0.0).sum(0) / np.maximum(measured.sum(1), 1)
    means = np.nanmean(scores, axis=1)
    places = [
        Place(
            models[at],
            1 + int(above[at]),
            count - int(below[at]),
            float(means[at]),
            float(borda[at]),
            float(mean_rank[at]),
            float(strength[at]),
            float(low[at]),
            float(high[at]),
            int(measured[at].sum()),
        )
        for at in np.argsort(-means, kind="stable")
    ]
    return Ranking(name, question, level, tuple(places), int((signs != 0).sum()), len(signs), apart)


def _wins(scores: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "n m m"]:
    """For each task who beats whom; a tie is half a win for each, and a missing value none."""
    own, right = scores.T[:, :, None], scores.T[:, None, :]
    with np.errstate(invalid="ignore"):
        wins = (own > right) + 0.5 * (own == right)
    wins[:, np.arange(len(scores)), np.arange(len(scores))] = 0.0
    return np.asarray(wins, dtype=np.float64)


def _strengths(
    wins: Float[np.ndarray, "*r m m"], start: Float[np.ndarray, " m"] | None = None
) -> Float[np.ndarray, "*r m"]:
    """Bradley and Terry's strengths by Newton's steps on the log likelihood, all boards at once.

    Steps are solved by conjugate gradients: every model plays nearly every other, so that few products are enough. A
    step below 1e-4 is the last: the next would be near its square. No step is longer than 2, so boards whose strengths
    are far apart, as where one model always wins over many tasks, take one for each 2 between the first and the last.

    Numerics: float32, whose rounding moves a strength by some 1e-6. Of strengths that are far apart, chances of
    losing are computed by themselves: as differences from 1 they would have no digits.
    """
    own = wins.astype(np.float32) + np.float32(_PRIOR) * (1 - np.eye(wins.shape[-1], dtype=np.float32))
    games, total = own + own.swapaxes(-1, -2), own.sum(-1)
    strength = np.broadcast_to(0.0 if start is None else start, wins.shape[:-1]).astype(np.float32)
    for _ in range(_STEPS):
        chance = strength[..., None, :] - strength[..., None]
        with np.errstate(over="ignore"):  # of what lies further apart, the chance is 0
            np.exp(chance, out=chance)
        chance += 1
        np.divide(1, chance, out=chance)  # that the first wins
        if np.ptp(strength, axis=-1).max() < _NEAR:
            links = games * chance
            slope = total - links.sum(-1)
            chance -= 1
            links *= chance  # the curvature off its diagonal
        else:
            losing = chance.swapaxes(-1, -2)
            slope = (own * losing).sum(-1) - (own * losing).sum(-2)
            links = -games * chance * losing
        step = np.clip(_solved(links, slope), -2, 2)
        strength = strength + step
        strength -= strength.mean(-1, keepdims=True)
        if np.abs(step).max() < 1e-4:
            break
    exact = strength.astype(np.float64)
    return np.asarray(exact - exact.mean(-1, keepdims=True))


def _solved(links: Float[np.ndarray, "*r m m"], slope: Float[np.ndarray, "*r m"]) -> Float[np.ndarray, "*r m"]:
    """Solve (D + links) x = slope for an x of mean 0; D is the diagonal that makes rows sum to 0, links are below 0."""
    diagonal = -links.sum(-1) + links.diagonal(axis1=-2, axis2=-1)
    links[..., np.arange(links.shape[-1]), np.arange(links.shape[-1])] = 0.0
    residual = slope - slope.mean(-1, keepdims=True)
    solution, direction, before = np.zeros_like(slope), np.zeros_like(slope), np.ones_like(slope[..., :1])
    enough = np.float32(1e-6) * (residual**2).sum(-1, keepdims=True)
    for number in range(4 * links.shape[-1]):
        scaled = residual / diagonal
        size = (residual * scaled).sum(-1, keepdims=True)
        direction = scaled + (size / before if number else 0) * direction
        product = diagonal * direction + (links @ direction[..., None])[..., 0]
        curved = (direction * product).sum(-1, keepdims=True)
        length = np.divide(size, curved, out=np.zeros_like(size), where=curved > 0)
        solution, residual, before = solution + length * direction, residual - length * product, np.maximum(size, 1e-30)
        if ((residual**2).sum(-1, keepdims=True) <= enough).all():
            break
    return np.asarray(solution)
