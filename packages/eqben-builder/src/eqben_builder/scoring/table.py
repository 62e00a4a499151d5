"""Text, image and group score of minimal pairs: of all, each subset and aspect, and the macro average; equivariance."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from eqben_builder.scoring.intervals import Share, check_sampling, effective, share_of
from paired_scores.labels import as_labels, names_of
from paired_scores.metrics.arrays import as_array

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from jaxtyping import Bool, Float, Float64
    from numpy.typing import ArrayLike, NDArray

#: What scores drawn independently from one continuous distribution would get.
CHANCE: dict[str, float] = {"text": 1 / 4, "image": 1 / 4, "group": 1 / 6}


class WinogroundScores(NamedTuple):
    """What `winoground_scores` returns.

    text: Both images pick their own caption.
    image: Both captions pick their own image.
    group: Both.
    ties: Pairs in which at least one of the four comparisons is an exact tie; these cannot be right in "group".
    outcomes: bool [n, 3], one row a pair: text, image, group.

    Example:
        >>> scores = winoground_scores([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.3], [0.2, 0.1]]])
        >>> scores.text.value, scores.ties, scores.outcomes.tolist()
        (0.5, 0, [[True, True, True], [False, False, False]])
    """

    text: Share
    image: Share
    group: Share
    ties: int
    outcomes: Bool[np.ndarray, "n 3"]


def winoground_scores(
    scores: ArrayLike, *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> WinogroundScores:
    """Score minimal pairs: text, image and group, by strict inequalities.

    text = mean[s00 > s10 and s11 > s01], image = mean[s00 > s01 and s11 > s10], group = mean[both], where s_ci is
    the similarity of caption c and image i.

    Args:
        scores: [n, 2, 2], the caption first: `scores[k, c, i]`; n at least 1. Any finite scale will do.
        level: Of the intervals, in (0, 1).
        resamples: Bootstrap samples of pairs, at least 1.
        seed: Of the bootstrap.

    Returns:
        A `WinogroundScores`; a model that ties everything scores 0, not chance.

    Raises:
        ValueError: The shape that is wrong, or the first entry that is not finite.

    Numerics:
        Comparisons are made in float64 on the values as given. The bootstrap of a share is drawn from its exact
        distribution, Binomial(n, share) / n; where fewer than ten pairs are right, or wrong, the interval is Wilson's.

    Example:
        >>> result = winoground_scores([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.9], [0.2, 0.8]]])
        >>> result.text.value, result.image.value, result.ties
        (0.5, 0.5, 1)

    Source:
        EqBen section 4 (text, image and group scores as in Winoground); chance as derived from four independent scores.
    """
    s = checked_scores(scores)
    check_sampling(level, resamples)
    outcomes, tied = comparisons(s)
    ties = int(tied.any(axis=1).sum())
    rng = np.random.default_rng(seed)
    tail = (1 - level) / 2
    shares = []
    for k, name in enumerate(("text", "image", "group")):
        value = float(outcomes[:, k].mean())
        shares.append(share_of(value, rng.binomial(len(s), value, resamples) / len(s), CHANCE[name], len(s), tail))
    return WinogroundScores(shares[0], shares[1], shares[2], ties, outcomes)


def comparisons(s: Float[np.ndarray, "n 2 2"]) -> tuple[Bool[np.ndarray, "n 3"], Bool[np.ndarray, "n 2"]]:
    """Of each pair whether text, image and group are right, and whether text and image hold an exact tie."""
    own = s[:, (0, 1), (0, 1)]
    # Of each image the other caption's score, and of each caption the other image's.
    swapped = (s[:, (1, 0), (0, 1)], s[:, (0, 1), (1, 0)])
    text, image = ((own > wrong).all(axis=1) for wrong in swapped)
    tied = np.stack([(own == wrong).any(axis=1) for wrong in swapped], axis=1)
    return np.stack([text, image, text & image], axis=1), tied


def checked_scores(scores: ArrayLike) -> Float64[np.ndarray, "n 2 2"]:
    """Scores as float64 [n, 2, 2], or an error with the shape or the first entry that is not finite."""
    s = as_array(scores, "scores").astype(np.float64)
    if s.ndim != 3 or s.shape[1:] != (2, 2) or not len(s):
        raise ValueError(f"scores have shape {s.shape}, expected (n, 2, 2) with n >= 1: scores[k, caption, image]")
    if not np.isfinite(s).all():
        k, c, i = np.argwhere(~np.isfinite(s))[0]
        raise ValueError(f"scores[{k}, {c}, {i}] = {s[k, c, i]} is not finite")
    return s


def equivariance_scores(scores: ArrayLike, *, scale: Literal["given", "spread"] = "given") -> Float64[np.ndarray, " n"]:
    """One number a pair, 0 for an equivariant model: |text residual| + |image residual|.

    text = (s00 - s10) - (s11 - s01), how unevenly the two images tell the captions apart, and
    image = (s00 - s01) - (s11 - s10), how unevenly the two captions tell the images apart.

    Args:
        scores: [n, 2, 2] with `scores[k, c, i]`.
        scale: "given" takes the scores as they are: compare models only where they share a scale (cosines with
            cosines). "spread" divides by the standard deviation of all 4n scores, so that a model does not look
            equivariant because its scores hardly move.

    Returns:
        float64 [n], not negative.

    Raises:
        ValueError: As `winoground_scores`; an unknown scale; with "spread", scores that are all equal.

    Example:
        >>> equivariance_scores([[[1.0, 0.25], [0.5, 0.5]]]).tolist()
        [1.0]

    Source:
        The quantity of EqBen's figure 6, here the sum of the absolute values of the two residuals of equation 6.
        "spread" is ours.
    """
    if scale not in ("given", "spread"):
        raise ValueError(f"scale {scale!r} is neither 'given' nor 'spread'")
    s = checked_scores(scores)
    text = (s[:, 0, 0] - s[:, 1, 0]) - (s[:, 1, 1] - s[:, 0, 1])
    image = (s[:, 0, 0] - s[:, 0, 1]) - (s[:, 1, 1] - s[:, 1, 0])
    errors: Float64[np.ndarray, " n"] = np.abs(text) + np.abs(image)
    if scale == "given":
        return errors
    spread = float(np.std(s))
    if spread == 0.0:
        raise ValueError("all scores are equal: they have no spread to divide by")
    return np.asarray(errors / spread, dtype=np.float64)


#: Subsets whose column is the mean of their aspects, each aspect weighing the same.
BY_ASPECT = ("kubric", "micro")

#: Text only, image only, both, neither: what each is worth in text, image and group.
_WORTH = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 1], [0, 0, 0]], dtype=np.float64)


class TableRow(NamedTuple):
    """One line of the table.

    name: "kubric", "kubric/location", "macro" or "all".
    kind: "subset", "aspect", "macro" or "all".
    pairs: How many pairs it covers.
    ties: Pairs with at least one exact tie.
    """

    name: str
    kind: str
    pairs: int
    ties: int
    text: Share
    image: Share
    group: Share


class ScoreTable(NamedTuple):
    """What `score_table` returns.

    rows: Subsets in the order of their names, each followed by its aspects; then "macro" and "all".
    average: The mean of every subset's text, image and group score, which is the paper's "Avg".
    outcomes: bool [n, 3]: text, image, group of each pair.

    Example:
        >>> table = score_table([[[1.0, 0.0], [0.0, 1.0]]] * 2, ["ag", "sd"])
        >>> [row.name for row in table.rows], table.row("ag").group.value
        (['ag', 'sd', 'macro', 'all'], 1.0)
    """

    rows: tuple[TableRow, ...]
    average: Share
    outcomes: Bool[np.ndarray, "n 3"]

    def row(self, name: str) -> TableRow:
        """The line of that name; a `KeyError` lists the names that exist."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"no row {name!r}; there are {', '.join(row.name for row in self.rows)}")


def score_table(
    scores: ArrayLike,
    subsets: Sequence[str] | None = None,
    aspects: Sequence[str] | None = None,
    *,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> ScoreTable:
    """Text, image and group score of every subset and aspect, with intervals, and their macro average.

    macro = mean over subsets of the subset's score; "kubric" and "micro" have the mean of their aspects' scores, where
    each of their pairs names one.

    Args:
        scores: [n, 2, 2] with `scores[k, c, i]`, the caption first.
        subsets: [n] names; one subset called "pairs" by default.
        aspects: [n] names; an empty name belongs to no aspect.
        clusters: [n] labels of what pairs share, such as their video: pairs of one label are resampled together. By
            default every pair is on its own, and intervals of pairs that share frames are too narrow.
        level: Of the intervals, in (0, 1).
        resamples: Bootstrap samples, at least 1.
        seed: Of the bootstrap.

    Returns:
        A `ScoreTable`. "all" pools the pairs: there the largest subset speaks for the rest.

    Raises:
        ValueError: Lengths that differ, a pair without a name or label (None, NaN), names that would give two rows one
            name; what `winoground_scores` refuses.

    Numerics:
        The bootstrap draws how many pairs of each cell are right in text only, image only, both or neither, from the
        multinomial of what was found: text, image and group stay dependent as they are, cells stay fixed in size. With
        clusters it draws how often each of a cell's clusters comes. Where fewer than ten pairs, or clusters, would be
        right, or wrong, the interval is Wilson's; a mean of cells then counts as 1 / sum(w^2 / n) pairs.

    Example:
        >>> good, bad = [[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]
        >>> table = score_table([good, good, good, bad], ["ag", "ag", "ag", "sd"])
        >>> table.row("all").group.value, table.row("macro").group.value, table.average.value
        (0.75, 0.5, 0.5)

    Source:
        EqBen table 3: Avg is the mean of the 15 columns (five subsets, three metrics); a Kubric column is the mean of
        its location, counting and attribute. Micro pairs follow Kubric here.
    """
    overall = winoground_scores(scores, level=level, resamples=resamples, seed=seed)
    n = len(overall.outcomes)
    subsets, aspects = _names(subsets, n, "subsets", "pairs"), _names(aspects, n, "aspects", "")
    shared = None if clusters is None else _numbered(_labels(clusters, n, "clusters"))
    ties: NDArray[np.bool_] = np.any(comparisons(checked_scores(scores))[1], axis=1)
    groups: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for k, (subset, aspect) in enumerate(zip(subsets, aspects, strict=True)):
        groups[subset][aspect].append(k)
    rng, tail = np.random.default_rng(seed), (1 - level) / 2
    rows: list[TableRow] = []
    values, draws, trials = [], [], []
    for subset in sorted(groups):
        cells = {name: np.array(members) for name, members in sorted(groups[subset].items())}
        sampled = {
            name: _bootstrap(overall.outcomes, members, shared, resamples, rng) for name, members in cells.items()
        }
        means = {name: overall.outcomes[members].mean(axis=0) for name, members in cells.items()}
        sizes = np.array([len(members) for members in cells.values()], dtype=np.float64)
        weights = np.ones(len(cells)) if subset in BY_ASPECT and "" not in cells else sizes
        weights = weights / weights.sum()
        value = np.tensordot(weights, np.stack(list(means.values())), 1)
        draw = np.tensordot(weights, np.stack(list(sampled.values())), 1)
        values.append(value)
        draws.append(draw)
        everyone = np.concatenate(list(cells.values()))
        held = {name: _trials(shared, members) for name, members in cells.items()}
        trials.append(min(effective(weights, list(held.values())), _trials(shared, everyone)))
        rows.append(_row(subset, "subset", everyone, ties, value, draw, trials[-1], tail))
        if set(cells) != {""}:
            rows += [
                _row(f"{subset}/{name}", "aspect", members, ties, means[name], sampled[name], held[name], tail)
                for name, members in cells.items()
                if name
            ]
    macro, macro_draws = np.mean(values, axis=0), np.mean(draws, axis=0)
    everyone = np.arange(n)
    total = _trials(shared, everyone)
    held_by_all = min(effective(np.full(len(trials), 1 / len(trials)), trials), total)
    rows.append(_row("macro", "macro", everyone, ties, macro, macro_draws, held_by_all, tail))
    pooled = _bootstrap(overall.outcomes, everyone, shared, resamples, rng)
    rows.append(_row("all", "all", everyone, ties, overall.outcomes.mean(axis=0), pooled, total, tail))
    _refuse_twice([row.name for row in rows])
    chance = sum(CHANCE.values()) / 3
    average = share_of(float(macro.mean()), macro_draws.mean(axis=1), chance, held_by_all, tail)
    return ScoreTable(tuple(rows), average, overall.outcomes)


def _names(values: Sequence[str] | None, n: int, kind: str, default: str) -> list[str]:
    return [default] * n if values is None else names_of(_labels(values, n, kind), kind)


def _refuse_twice(names: Sequence[str]) -> None:
    """Refuse rows of one name: `row` would find the first, a subset called "all" in place of all pairs."""
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(
            f"subsets: two rows of the table would be called {twice[0]!r}; rename the subset (macro and all are rows "
            "of their own, SUBSET/ASPECT is an aspect's)"
        )


def _labels(values: Sequence[Hashable], n: int, kind: str) -> list[Hashable]:
    labels = as_labels(values, kind)
    if len(labels) != n:
        raise ValueError(f"{len(labels)} {kind} for {n} pairs")
    return labels


def _numbered(labels: Sequence[Hashable]) -> NDArray[np.int64]:
    """Numbers of clusters, in the order of their names."""
    number = {label: at for at, label in enumerate(sorted(set(labels), key=str))}
    return np.array([number[label] for label in labels])


def _bootstrap(
    outcomes: NDArray[np.bool_],
    members: NDArray[np.intp],
    shared: NDArray[np.intp] | None,
    resamples: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Resampled means of text, image and group over some pairs, [resamples, 3]."""
    chosen = outcomes[members]
    if shared is not None:
        names, cluster = np.unique(shared[members], return_inverse=True)
        sums = np.zeros((len(names), 4))
        np.add.at(sums, cluster, np.column_stack([chosen, np.ones(len(chosen))]))
        g = len(names)
        drawn = np.stack([np.bincount(rng.integers(0, g, g), minlength=g) @ sums for _ in range(resamples)])
        return np.asarray(drawn[:, :3] / drawn[:, 3:], dtype=np.float64)
    text, image = chosen[:, 0], chosen[:, 1]
    shares = [(text & ~image).mean(), (image & ~text).mean(), (text & image).mean(), (~text & ~image).mean()]
    counts = rng.multinomial(len(chosen), np.array(shares) / np.sum(shares), resamples)
    return np.asarray(counts @ _WORTH / len(chosen), dtype=np.float64)


def _trials(shared: NDArray[np.intp] | None, members: NDArray[np.intp]) -> float:
    """How many things that are independent of one another some pairs are."""
    return float(len(members) if shared is None else len(np.unique(shared[members])))


def _row(
    name: str,
    kind: str,
    members: NDArray[np.intp],
    ties: NDArray[np.bool_],
    value: NDArray[np.float64],
    draws: NDArray[np.float64],
    trials: float,
    tail: float,
) -> TableRow:
    text, image, group = (
        share_of(float(value[k]), draws[:, k], CHANCE[metric], trials, tail)
        for k, metric in enumerate(("text", "image", "group"))
    )
    return TableRow(name, kind, len(members), int(ties[members].sum()), text, image, group)
