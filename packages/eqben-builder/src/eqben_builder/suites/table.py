"""A suite's scores: each subset and each published average, with chance, intervals by picture, and the blind lines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eqben_builder.scoring.intervals import Share, effective, share_of
from eqben_builder.suites.blind import Difference, blind_outcomes, paired_difference
from eqben_builder.suites.outcomes import Outcome, main_outcome, outcomes_of
from eqben_builder.suites.published import published_scores
from eqben_builder.suites.suite import Average, Part, Pooled, Without, fitting

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from eqben_builder.scoring.blind import TextScorer
    from eqben_builder.suites.features import Similarities
    from eqben_builder.suites.files import SuiteRow
    from eqben_builder.suites.suite import SuiteData

#: The measures that captions alone could win, and that blind lines stand beside.
SEEN = ("accuracy", "both", "right")
#: The line of all questions, each by the main measure of its shape.
OVERALL = "all questions"
_BATCH = 100


class SuiteLine(NamedTuple):
    """One line of the table.

    name: A subset, or an average's name.
    measure: Such as "accuracy" or "group".
    questions: How many it covers; 0 for an average.
    ties: Questions that a tie made wrong.
    score: In [0, 1], with its interval and its chance; a mean rank is 1 or more.
    authors: The score with ties as the authors' scoring has them, where that differs.
    blind: Line -> its score on the same questions.
    better: The score less the best blind line's, with a paired test; None where no blind model could score.
    published: Model -> its score in [0, 1], as published.

    Example:
        >>> share = Share(0.75, 0.5, 0.875, 0.5)
        >>> SuiteLine("swap_obj", "accuracy", 8, 0, share, None, {}, None, {}).score.chance
        0.5
    """

    name: str
    measure: str
    questions: int
    ties: int
    score: Share
    authors: float | None
    blind: Mapping[str, Share]
    better: Difference | None
    published: Mapping[str, float]


class SuiteTable(NamedTuple):
    """What `suite_table` returns.

    suite: The suite's id.
    overall: All questions, each by the main measure of its shape ("right"): accuracy, group, or both paraphrases.
    lines: Every subset by every measure.
    averages: Those that are published, each by its name.
    notes: What was amiss with the files, and what a reader must know.
    outcomes: Measure -> `Outcome`, for comparing runs question by question; "right" has every question, in order.

    Example:
        >>> share = Share(0.75, 0.5, 0.875, 0.5)
        >>> line = SuiteLine("all questions", "right", 8, 0, share, None, {}, None, {})
        >>> SuiteTable("sugarcrepe", line, (), (), (), {}).line("all questions", "right").questions
        8
    """

    suite: str
    overall: SuiteLine
    lines: tuple[SuiteLine, ...]
    averages: tuple[SuiteLine, ...]
    notes: tuple[str, ...]
    outcomes: Mapping[str, Outcome]

    def line(self, name: str, measure: str = "accuracy") -> SuiteLine:
        """The line or average of that name and measure; a `KeyError` lists those that exist."""
        every = (self.overall, *self.averages, *self.lines)
        for one in every:
            if (one.name, one.measure) == (name, measure):
                return one
        there = ", ".join(f"{one.name} {one.measure}" for one in every)
        raise KeyError(f"no line {name!r} {measure!r}; there are {there}")


def suite_table(
    data: SuiteData,
    found: Similarities,
    *,
    scorers: Mapping[str, TextScorer] | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> SuiteTable:
    """Score a suite.

    Args:
        data: What `read_suite` gave.
        found: Similarities of its questions.
        scorers: Blind lines of your own, as in `blind_outcomes`.
        level: Of the intervals, in (0, 1).
        resamples: Bootstrap samples of pictures, at least 1.
        seed: Of the bootstrap, the tests and the folds.

    Returns:
        A `SuiteTable`.

    Raises:
        ValueError: Numbers out of range; as `outcomes_of` and `blind_outcomes`.

    Numerics:
        Questions of one picture are resampled together, over all subsets at once, so that an average's interval knows
        that its subsets share pictures. At 0 and at 1, where resampling has nothing to vary, the interval is Wilson's
        with the number of pictures that the line's own questions show; a mean of parts counts at most as many as have
        its variance, 1 / sum of w^2 / n.

    Example:
        >>> from eqben_builder.formats import Picture
        >>> from eqben_builder.suites import SUITES, SuiteData, SuiteRow
        >>> from eqben_builder.suites.features import Similarities
        >>> rows = [SuiteRow(f"{k}", "swap_obj", "captions", (Picture(content=b""),), ("a on b", "b on a"), f"{k}")
        ...     for k in range(20)]
        >>> s = Similarities([np.array([[1.0 if k % 4 else 0.0], [0.5]]) for k in range(20)], [None] * 20)
        >>> table = suite_table(SuiteData(SUITES["sugarcrepe"], rows, {}, {}, ()), s)
        >>> line = table.line("swap_obj")
        >>> line.score.value, line.score.chance, line.blind["shorter"].value
        (0.75, 0.5, 0.0)
        >>> table.overall.questions, table.overall.score.value
        (20, 0.75)
    """
    if not 0.0 < level < 1.0 or resamples < 1:
        raise ValueError(f"level = {level!r} and resamples = {resamples!r}: expected within (0, 1) and at least 1")
    rows = data.rows
    outcomes = outcomes_of(rows, found, seed=seed)
    outcomes |= _sets(rows, outcomes.get("accuracy"))
    blind = blind_outcomes(rows, scorers, seed=seed)
    right = main_outcome(rows, outcomes)
    named = dict(outcomes) | {"right": right} | {f"blind {name}": one for name, one in blind.items()}
    cells = _Cells(rows, named, data.suite.macro)
    sample = cells.drawn(resamples, seed)
    clusters = [row.cluster for row in rows]
    tail = (1 - level) / 2
    lines = []
    for measure, outcome in outcomes.items():
        for subset in cells.subsets(measure):
            score = cells.share(measure, subset, sample, tail)
            beside = {
                name: cells.share(f"blind {name}", subset, sample, tail)
                for name in blind
                if measure in SEEN and subset in cells.subsets(f"blind {name}")
            }
            beside = {name: share._replace(chance=score.chance) for name, share in beside.items()}
            members = np.flatnonzero([rows[place].subset == subset for place in outcome.rows])
            better = _better(outcome, members, blind, beside, clusters, level, resamples, seed)
            lines.append(
                SuiteLine(
                    subset,
                    measure,
                    len(members),
                    int(outcome.tied[members].sum()),
                    score,
                    _with_ties(data, outcome, members, subset, cells, measure),
                    beside,
                    better,
                    published_scores(data.suite.id, subset, measure),
                )
            )
    averages = []
    for one in data.suite.averages:
        line = _average(one, cells, sample, tail, list(blind), data.suite.id)
        if line is not None:
            averages.append(line)
    # Only what a blind model could answer all of is held against it as a whole.
    whole = [name for name, one in blind.items() if len(one.rows) == len(rows)]
    overall = _average(Average(OVERALL, Pooled(("*",)), "right"), cells, sample, tail, whole, data.suite.id)
    assert overall is not None
    overall = overall._replace(questions=len(rows), ties=int(right.tied.sum()))
    notes = (*data.notes, *([data.suite.note] if data.suite.note else []))
    return SuiteTable(data.suite.id, overall, tuple(lines), tuple(averages), notes, outcomes | {"right": right})


def _sets(rows: Sequence[SuiteRow], accuracy: Outcome | None) -> dict[str, Outcome]:
    """Measures of sets of questions that must all be right."""
    if accuracy is None:
        return {}
    found: dict[str, dict[str, list[int]]] = {}
    for k, place in enumerate(accuracy.rows.tolist()):
        for measure, name in rows[place].sets.items():
            found.setdefault(measure, {}).setdefault(name, []).append(k)
    made = {}
    for measure, sets in found.items():
        members = list(sets.values())
        made[measure] = Outcome(
            accuracy.rows[[one[0] for one in members]],
            np.array([accuracy.right[one].min() for one in members]),
            np.array([bool(accuracy.tied[one].any()) for one in members]),
            np.array([math.prod(accuracy.chance[one].tolist()) for one in members]),
        )
    return made


class _Cells:
    """Sums of right answers by measure, subset and group for each cluster of questions, and their bootstrap."""

    def __init__(self, rows: Sequence[SuiteRow], outcomes: Mapping[str, Outcome], macro: Mapping[str, int]) -> None:
        self.macro = macro
        names, cluster = np.unique([row.cluster for row in rows], return_inverse=True)
        self.clusters = len(names)
        keys: dict[tuple[str, str, str], int] = {}
        entries: list[tuple[NDArray[np.intp], NDArray[np.intp], Outcome]] = []
        for measure, outcome in outcomes.items():
            at = [
                keys.setdefault((measure, rows[k].subset, rows[k].group if rows[k].subset in macro else ""), len(keys))
                for k in outcome.rows.tolist()
            ]
            entries.append((np.array(at, np.intp), cluster[outcome.rows], outcome))
        self.keys = keys
        self.group = [group for _, _, group in keys]
        self.sums = np.zeros((self.clusters, len(keys)), np.float32)
        self.counts = np.zeros((self.clusters, len(keys)), np.float32)
        self.chances = np.zeros(len(keys))
        for at_, of, outcome in entries:
            np.add.at(self.sums, (of, at_), outcome.right)
            np.add.at(self.counts, (of, at_), 1)
            np.add.at(self.chances, at_, np.nan_to_num(outcome.chance))
        self.totals = self.counts.sum(0).astype(np.float64)
        self.rights = self.sums.sum(0).astype(np.float64)

    def subsets(self, measure: str) -> list[str]:
        return list(dict.fromkeys(subset for named, subset, _ in self.keys if named == measure))

    def columns(self, measure: str, subset: str) -> list[int]:
        return [k for (named, of, _), k in self.keys.items() if (named, of) == (measure, subset)]

    def held(self, columns: Sequence[int]) -> int:
        """Clusters that have a question in these cells."""
        return int(np.count_nonzero(self.counts[:, columns].sum(1)))

    def drawn(self, resamples: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Resampled sums and counts of every cell, [resamples, cells]."""
        rng = np.random.default_rng(seed)
        sums, counts = [], []
        for start in range(0, resamples, _BATCH):
            weights = np.stack(
                [
                    np.bincount(rng.integers(0, self.clusters, self.clusters), minlength=self.clusters)
                    for _ in range(min(_BATCH, resamples - start))
                ]
            ).astype(np.float32)
            sums.append(weights @ self.sums)
            counts.append(weights @ self.counts)
        return np.concatenate(sums).astype(np.float64), np.concatenate(counts).astype(np.float64)

    def value(
        self,
        measure: str,
        subset: str,
        sums: NDArray[np.float64],
        counts: NDArray[np.float64],
        without: Collection[str] = (),
    ) -> NDArray[np.float64]:
        """A subset's score from sums and counts [..., cells]: pooled, or the mean over groups that are large enough."""
        columns = self.columns(measure, subset)
        if subset in self.macro:
            columns = [k for k in columns if self.group[k] not in without]
            large = [k for k in columns if self.totals[k] >= self.macro[subset]] or columns
            with np.errstate(invalid="ignore", divide="ignore"):
                shares = sums[..., large] / counts[..., large]
            there = np.isfinite(shares)
            mean = np.where(there, shares, 0.0).sum(-1) / np.maximum(there.sum(-1), 1)
            return np.asarray(mean, dtype=np.float64)
        return np.asarray(sums[..., columns].sum(-1) / np.maximum(counts[..., columns].sum(-1), 1), dtype=np.float64)

    def pooled(
        self, measure: str, subsets: Sequence[str], sums: NDArray[np.float64], counts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        columns = [k for subset in subsets for k in self.columns(measure, subset)]
        return np.asarray(sums[..., columns].sum(-1) / np.maximum(counts[..., columns].sum(-1), 1), dtype=np.float64)

    def share(
        self, measure: str, subset: str, sample: tuple[NDArray[np.float64], NDArray[np.float64]], tail: float
    ) -> Share:
        value = float(self.value(measure, subset, self.rights, self.totals))
        chance = float(self.value(measure, subset, self.chances, self.totals))
        columns = self.columns(measure, subset)
        held = self.held(columns)
        draws = self.value(measure, subset, *sample)
        if measure == "mean rank":  # no share: its interval is the quantiles alone
            low, high = np.quantile(draws, (tail, 1 - tail)).tolist()
            return Share(value, low, high, chance)
        return share_of(value, draws, chance, held, tail)


def _with_ties(
    data: SuiteData, outcome: Outcome, members: NDArray[np.intp], subset: str, cells: _Cells, measure: str
) -> float | None:
    """The score where a tie is right, if that is what the authors count and it differs."""
    if data.suite.authors_ties.get(subset) != "right" or measure != "accuracy" or not outcome.tied[members].any():
        return None
    kind = np.maximum(outcome.right, outcome.tied)
    if subset not in data.suite.macro:
        return float(kind[members].mean())
    groups = np.array([data.rows[place].group for place in outcome.rows[members].tolist()])
    least = data.suite.macro[subset]
    means = [kind[members][groups == g].mean() for g in np.unique(groups) if (groups == g).sum() >= least]
    return float(np.mean(means)) if means else None


def _better(
    outcome: Outcome,
    members: NDArray[np.intp],
    blind: Mapping[str, Outcome],
    beside: Mapping[str, Share],
    clusters: Sequence[str],
    level: float,
    resamples: int,
    seed: int,
) -> Difference | None:
    if not beside:
        return None
    best = max(beside, key=lambda name: beside[name].value)
    right = dict(zip(blind[best].rows.tolist(), blind[best].right.tolist(), strict=True))
    places = [k for k in members.tolist() if int(outcome.rows[k]) in right]
    names = [clusters[int(outcome.rows[k])] for k in places]
    theirs = np.array([right[int(outcome.rows[k])] for k in places])
    return paired_difference(outcome.right[places], theirs, names, level=level, resamples=resamples, seed=seed)


def _average(
    one: Average,
    cells: _Cells,
    sample: tuple[NDArray[np.float64], NDArray[np.float64]],
    tail: float,
    blind: Sequence[str],
    suite: str,
) -> SuiteLine | None:
    value = _part(one.part, one.measure, cells, cells.rights, cells.totals)
    if value is None:
        return None
    draws = _part(one.part, one.measure, cells, *sample)
    chance = _part(one.part, one.measure, cells, cells.chances, cells.totals)
    assert draws is not None
    assert chance is not None
    trials = _trials(one.part, one.measure, cells)
    score = share_of(float(value), draws, float(chance), trials, tail)
    beside = {}
    for name in blind if one.measure in SEEN else ():
        theirs = _part(one.part, f"blind {name}", cells, cells.rights, cells.totals)
        drawn = _part(one.part, f"blind {name}", cells, *sample)
        if theirs is not None and drawn is not None:
            trials = _trials(one.part, f"blind {name}", cells)
            beside[name] = share_of(float(theirs), drawn, score.chance, trials, tail)
    better = None
    if beside:
        best = max(beside, key=lambda name: beside[name].value)
        theirs = _part(one.part, f"blind {best}", cells, *sample)
        assert theirs is not None
        apart = draws - theirs
        low, high = np.quantile(apart, (tail, 1 - tail)).tolist()
        below = (1 + np.count_nonzero(apart <= 0)) / (1 + len(apart))
        above = (1 + np.count_nonzero(apart >= 0)) / (1 + len(apart))
        better = Difference(score.value - beside[best].value, low, high, min(1.0, 2 * min(below, above)))
    shown = published_scores(suite, one.name, one.measure)
    return SuiteLine(one.name, one.measure, 0, 0, score, None, beside, better, shown)


def _part(
    part: Part, measure: str, cells: _Cells, sums: NDArray[np.float64], counts: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """A part's score; None where a subset of it is not there, for an average of fewer is another number."""
    there = cells.subsets(measure)
    if isinstance(part, Pooled):
        subsets = [name for pattern in part.subsets for name in fitting(pattern, there)]
        whole = all(fitting(pattern, there) for pattern in part.subsets)
        return cells.pooled(measure, subsets, sums, counts) if whole else None
    if isinstance(part, Without):
        left = [k for k in cells.columns(measure, part.subset) if cells.group[k] not in part.groups]
        return cells.value(measure, part.subset, sums, counts, part.groups) if left else None
    if isinstance(part, str):
        values = [cells.value(measure, subset, sums, counts) for subset in fitting(part, there)]
        return np.asarray(np.mean(values, axis=0)) if values else None
    parts = [_part(one, measure, cells, sums, counts) for one in part]
    held = [one for one in parts if one is not None]
    return np.asarray(np.mean(held, axis=0)) if len(held) == len(parts) else None


def _trials(part: Part, measure: str, cells: _Cells) -> float:
    """How many independent things a part's score rests on.

    These are the clusters of its own questions; a mean of parts rests on no more than `effective` of theirs, since the
    smallest part weighs as much as the largest.
    """
    there = cells.subsets(measure)
    if isinstance(part, str) and len(fitting(part, there)) != 1:
        part = tuple(fitting(part, there))
    if isinstance(part, tuple) and not isinstance(part, Pooled | Without):
        own = [_trials(one, measure, cells) for one in part]
        return min(cells.held(_columns(part, measure, cells)), effective(np.full(len(own), 1 / len(own)), own))
    return cells.held(_columns(part, measure, cells))


def _columns(part: Part, measure: str, cells: _Cells) -> list[int]:
    """The cells that a part's score is made of."""
    there = cells.subsets(measure)
    if isinstance(part, Without):
        return [k for k in cells.columns(measure, part.subset) if cells.group[k] not in part.groups]
    if isinstance(part, str | Pooled):
        patterns = (part,) if isinstance(part, str) else part.subsets
        return [k for pattern in patterns for name in fitting(pattern, there) for k in cells.columns(measure, name)]
    return [k for one in part for k in _columns(one, measure, cells)]
