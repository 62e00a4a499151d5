"""A suite's scores: each subset and each published average, chance, intervals by image, and text-only baselines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eqben_builder.scoring.intervals import Share, check_sampling, effective, share_of
from eqben_builder.suites.blind import Difference, bag_of_words_outcome, blind_outcomes, paired_difference
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

#: The measures that captions alone could win, and that text-only baselines stand beside.
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
    better: The score less the best text-only baseline's, with a paired test; None where no blind model could score.
    published: Model -> its score in [0, 1], as published.
    same_words: Questions in which a wrong caption has the words of the right one, in another order; None where not all
        questions have one image with several captions, and for averages.
    bag_of_words: The most that a model reaches which does not see the order of words; None likewise.

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
    same_words: int | None = None
    bag_of_words: float | None = None


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
        for line in every:
            if (line.name, line.measure) == (name, measure):
                return line
        existing = ", ".join(f"{line.name} {line.measure}" for line in every)
        raise KeyError(f"no line {name!r} {measure!r}; there are {existing}")


def suite_table(
    data: SuiteData,
    similar: Similarities,
    *,
    scorers: Mapping[str, TextScorer] | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> SuiteTable:
    """Score a suite.

    Args:
        data: What `read_suite` gave.
        similar: Similarities of its questions.
        scorers: Blind lines of your own, as in `blind_outcomes`.
        level: Of the intervals, in (0, 1).
        resamples: Bootstrap samples of images, at least 1.
        seed: Of the bootstrap, the tests and the folds.

    Returns:
        A `SuiteTable`.

    Raises:
        ValueError: Numbers out of range; as `outcomes_of` and `blind_outcomes`.

    Numerics:
        Questions of one image are resampled together, over all subsets at once, so that an average's interval knows
        that its subsets share images. At 0 and at 1, where resampling has nothing to vary, the interval is Wilson's
        with the number of images that the line's own questions show; a mean of parts counts at most as many as have
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
    check_sampling(level, resamples)
    rows, suite = data.rows, data.suite
    outcomes = outcomes_of(rows, similar, seed=seed)
    outcomes |= _sets(rows, outcomes.get("accuracy"))
    blind = blind_outcomes(rows, scorers, seed=seed)
    right = main_outcome(rows, outcomes)
    measured = dict(outcomes) | {"right": right} | {f"blind {name}": outcome for name, outcome in blind.items()}
    cells = _Cells(rows, measured, suite.macro, resamples, seed)
    clusters = [row.cluster for row in rows]
    tail = (1 - level) / 2
    bag = bag_of_words_outcome(rows)
    lines = []
    for measure, outcome in outcomes.items():
        for subset in cells.subsets(measure):
            score = cells.share(cells.leaf(measure, subset), tail, rank=measure == "mean rank")
            beside = {
                name: cells.share(cells.leaf(f"blind {name}", subset), tail)._replace(chance=score.chance)
                for name in blind
                if measure in SEEN and subset in cells.subsets(f"blind {name}")
            }
            members = np.flatnonzero([rows[index].subset == subset for index in outcome.rows])
            better = _better(outcome, members, blind, beside, clusters, level, resamples, seed)
            authors = _with_ties(data, outcome, members, subset) if measure == "accuracy" else None
            ties, published = int(outcome.tied[members].sum()), published_scores(suite.id, subset, measure)
            line = SuiteLine(subset, measure, len(members), ties, score, authors, beside, better, published)
            lines.append(
                _with_words(line, bag, [row.subset == subset for row in rows]) if measure == "accuracy" else line
            )
    averages = [_average(average, cells, tail, list(blind), suite.id) for average in suite.averages]
    # Only what a blind model could answer all of is held against it as a whole.
    complete = [name for name, outcome in blind.items() if len(outcome.rows) == len(rows)]
    overall = _average(Average(OVERALL, Pooled(("*",)), "right"), cells, tail, complete, suite.id)
    assert overall is not None
    overall = overall._replace(questions=len(rows), ties=int(right.tied.sum()))
    overall = _with_words(overall, bag, [True] * len(rows))
    notes = (*data.notes, *([suite.note] if suite.note else []), *_words_note(bag))
    published_averages = tuple(line for line in averages if line is not None)
    return SuiteTable(suite.id, overall, tuple(lines), published_averages, notes, outcomes | {"right": right})


def _with_words(line: SuiteLine, bag: Outcome | None, of_line: Sequence[bool]) -> SuiteLine:
    """The line with what order alone decides in it, where this is known of all its questions."""
    if bag is None:
        return line
    own = np.array(of_line)[bag.rows]
    if not own.any() or own.sum() < sum(of_line):
        return line
    return line._replace(same_words=int(bag.tied[own].sum()), bag_of_words=float(bag.right[own].mean()))


def _words_note(bag: Outcome | None) -> list[str]:
    if bag is None or not bag.tied.any():
        return []
    count = f"{bag.tied.sum():,} of {len(bag.rows):,} questions"
    ceiling = f"a model that sees no order reaches {bag.right.mean():.1%} of all at most"
    return [f"{count} have a wrong caption of the same words in another order: {ceiling}"]


def _sets(rows: Sequence[SuiteRow], accuracy: Outcome | None) -> dict[str, Outcome]:
    """Measures of sets of questions that must all be right."""
    if accuracy is None:
        return {}
    sets_of: dict[str, dict[str, list[int]]] = {}
    for k, index in enumerate(accuracy.rows.tolist()):
        for measure, name in rows[index].sets.items():
            sets_of.setdefault(measure, {}).setdefault(name, []).append(k)
    outcomes = {}
    for measure, sets in sets_of.items():
        members = list(sets.values())
        outcomes[measure] = Outcome(
            accuracy.rows[[places[0] for places in members]],
            np.array([accuracy.right[places].min() for places in members]),
            np.array([bool(accuracy.tied[places].any()) for places in members]),
            np.array([math.prod(accuracy.chance[places].tolist()) for places in members]),
        )
    return outcomes


class _Leaf(NamedTuple):
    """A subset, or several pooled: its cells, and those that its score is the mean of where it is one over groups."""

    columns: list[int]
    groups: list[int] | None = None


#: What a score is made of: one subset, or the mean of several such.
_Node = _Leaf | list["_Node"]


class _Cells:
    """Sums of right answers by measure, subset and group for each cluster of questions, and their bootstrap."""

    def __init__(
        self,
        rows: Sequence[SuiteRow],
        outcomes: Mapping[str, Outcome],
        macro: Mapping[str, int],
        resamples: int,
        seed: int,
    ) -> None:
        self.macro = macro
        names, cluster = np.unique([row.cluster for row in rows], return_inverse=True)
        self.keys: dict[tuple[str, str, str], int] = {}
        columns = []
        for measure, outcome in outcomes.items():
            chosen = [rows[k] for k in outcome.rows.tolist()]
            keys = [(measure, row.subset, row.group if row.subset in macro else "") for row in chosen]
            columns.append(np.array([self.keys.setdefault(key, len(self.keys)) for key in keys], np.intp))
        sums, self.counts = (np.zeros((len(names), len(self.keys)), np.float32) for _ in range(2))
        chances = np.zeros(len(self.keys))
        for at, outcome in zip(columns, outcomes.values(), strict=True):
            np.add.at(sums, (cluster[outcome.rows], at), outcome.right)
            np.add.at(self.counts, (cluster[outcome.rows], at), 1)
            np.add.at(chances, at, np.nan_to_num(outcome.chance))
        self.totals = self.counts.sum(0).astype(np.float64)
        self.rights, self.chances = (sums.sum(0).astype(np.float64), self.totals), (chances, self.totals)
        self.draws = self._drawn(sums, resamples, np.random.default_rng(seed))

    def _drawn(
        self, sums: NDArray[np.float32], resamples: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Resampled sums and counts of every cell, [resamples, cells]."""
        clusters, parts = len(sums), []
        for start in range(0, resamples, _BATCH):
            drawn = (rng.integers(0, clusters, clusters) for _ in range(min(_BATCH, resamples - start)))
            weights = np.stack([np.bincount(numbers, minlength=clusters) for numbers in drawn]).astype(np.float32)
            parts.append((weights @ sums, weights @ self.counts))
        first, second = (np.concatenate(arrays).astype(np.float64) for arrays in zip(*parts, strict=True))
        return first, second

    def subsets(self, measure: str) -> list[str]:
        return list(dict.fromkeys(subset for named, subset, _ in self.keys if named == measure))

    def leaf(self, measure: str, subset: str, without: Collection[str] = ()) -> _Leaf:
        own = {group: k for (named, of, group), k in self.keys.items() if (named, of) == (measure, subset)}
        columns = [k for group, k in own.items() if group not in without]
        if subset not in self.macro:
            return _Leaf(columns)
        return _Leaf(columns, [k for k in columns if self.totals[k] >= self.macro[subset]] or columns)

    def resolved(self, part: Part, measure: str) -> _Node | None:
        """What a part is made of; None where a subset of it is not there, for an average of fewer is another number."""
        subsets_known = self.subsets(measure)
        if isinstance(part, Without):
            leaf = self.leaf(measure, part.subset, part.groups)
            return leaf if leaf.columns else None
        if isinstance(part, Pooled):
            fits = [fitting(pattern, subsets_known) for pattern in part.subsets]
            columns = [k for subsets in fits for subset in subsets for k in self.leaf(measure, subset).columns]
            return _Leaf(columns) if all(fits) else None
        if isinstance(part, str):
            leaves: list[_Node] = [self.leaf(measure, subset) for subset in fitting(part, subsets_known)]
            return leaves[0] if len(leaves) == 1 else leaves or None
        nodes = [self.resolved(member, measure) for member in part]
        resolved = [node for node in nodes if node is not None]
        return resolved if len(resolved) == len(nodes) else None

    def value(self, node: _Node, sums: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """A score from sums and counts [..., cells]: pooled, the mean over large groups, or the mean of such."""
        if isinstance(node, list):
            return np.asarray(np.mean([self.value(member, sums, counts) for member in node], axis=0))
        if node.groups is None:
            rights, questions = sums[..., node.columns].sum(-1), counts[..., node.columns].sum(-1)
            return np.asarray(rights / np.maximum(questions, 1), dtype=np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = sums[..., node.groups] / counts[..., node.groups]
        finite = np.isfinite(shares)
        mean = np.where(finite, shares, 0.0).sum(-1) / np.maximum(finite.sum(-1), 1)
        return np.asarray(mean, dtype=np.float64)

    def trials(self, node: _Node) -> float:
        """How many independent things a score rests on: the clusters of its own questions.

        A mean of parts rests on no more than `effective` of theirs, since the smallest weighs as much as the largest.
        """
        own = int(np.count_nonzero(self.counts[:, _columns(node)].sum(1)))
        if not isinstance(node, list):
            return own
        return min(own, effective(np.full(len(node), 1 / len(node)), [self.trials(member) for member in node]))

    def share(self, node: _Node, tail: float, *, rank: bool = False) -> Share:
        value, chance = float(self.value(node, *self.rights)), float(self.value(node, *self.chances))
        draws = self.value(node, *self.draws)
        if rank:  # no share: its interval is the quantiles alone
            low, high = np.quantile(draws, (tail, 1 - tail)).tolist()
            return Share(value, low, high, chance)
        return share_of(value, draws, chance, self.trials(node), tail)


def _columns(node: _Node) -> list[int]:
    """The cells that a score is made of."""
    return [k for member in node for k in _columns(member)] if isinstance(node, list) else node.columns


def _with_ties(data: SuiteData, outcome: Outcome, members: NDArray[np.intp], subset: str) -> float | None:
    """The score where a tie is right, if that is what the authors count and it differs."""
    if data.suite.authors_ties.get(subset) != "right" or not outcome.tied[members].any():
        return None
    kind = np.maximum(outcome.right, outcome.tied)
    if subset not in data.suite.macro:
        return float(kind[members].mean())
    groups = np.array([data.rows[index].group for index in outcome.rows[members].tolist()])
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


def _average(average: Average, cells: _Cells, tail: float, blind: Sequence[str], suite: str) -> SuiteLine | None:
    node = cells.resolved(average.part, average.measure)
    if node is None:
        return None
    score = cells.share(node, tail)
    nodes = {name: cells.resolved(average.part, f"blind {name}") for name in blind if average.measure in SEEN}
    resolved = {name: own for name, own in nodes.items() if own is not None}
    beside = {name: cells.share(own, tail)._replace(chance=score.chance) for name, own in resolved.items()}
    better = None
    if beside:
        best = max(beside, key=lambda name: beside[name].value)
        apart = cells.value(node, *cells.draws) - cells.value(resolved[best], *cells.draws)
        low, high = np.quantile(apart, (tail, 1 - tail)).tolist()
        below = (1 + np.count_nonzero(apart <= 0)) / (1 + len(apart))
        above = (1 + np.count_nonzero(apart >= 0)) / (1 + len(apart))
        better = Difference(score.value - beside[best].value, low, high, min(1.0, 2 * min(below, above)))
    published = published_scores(suite, average.name, average.measure)
    return SuiteLine(average.name, average.measure, 0, 0, score, None, beside, better, published)
