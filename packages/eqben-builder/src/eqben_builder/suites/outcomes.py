"""Which questions a model gets right, by every measure of their shape; a tie is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eqben_builder.scoring.table import CHANCE, comparisons
from eqben_builder.scoring.valse import best_cut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float64
    from numpy.typing import NDArray

    from eqben_builder.suites.features import Similarities
    from eqben_builder.suites.files import Shape, SuiteRow

#: The measure that says whether a question of a shape was answered rightly as a whole.
MAIN: Mapping[Shape, str] = {
    "captions": "accuracy",
    "images": "accuracy",
    "statement": "accuracy",
    "pairs": "group",
    "paraphrases": "both",
}
#: Folds in which a statement's threshold is chosen on the other images.
FOLDS = 5


class Outcome(NamedTuple):
    """One measure over the questions that it is asked of.

    rows: Places of the questions.
    right: 1 or 0 each (or a rank, a reciprocal or a share, for measures that are such).
    tied: Whether a tie decided it.
    chance: What independent scores would get, for each question.
    """

    rows: NDArray[np.intp]
    right: Float64[np.ndarray, " n"]
    tied: NDArray[np.bool_]
    chance: Float64[np.ndarray, " n"]


def outcomes_of(rows: Sequence[SuiteRow], similar: Similarities, *, seed: int = 0) -> dict[str, Outcome]:
    """Every measure of every shape that occurs.

    captions: "accuracy", s(right) > s(wrong) for all; with several sizes of recall "R@3", "R@5" and "R@10" where at
    least four captions stand to choose. pairs: "text", "image", "group" as in Winoground. paraphrases: "both" (each
    right caption beats the wrong one), "first", "second", and "text only" (cosines of the captions alone). images:
    "accuracy". statement: "accuracy" at the threshold that is best on the other images' folds.
    """
    if len(similar.values) != len(rows):
        raise ValueError(f"{len(similar.values)} similarities for {len(rows)} questions")
    parts: dict[str, list[tuple[int, float, bool, float]]] = {}

    def add(measure: str, index: int, right: float, tied: bool, chance: float) -> None:
        parts.setdefault(measure, []).append((index, float(right), bool(tied), chance))

    pairs: list[int] = []
    statements: list[int] = []
    for index, (row, s) in enumerate(zip(rows, similar.values, strict=True)):
        if row.shape in ("captions", "images"):
            _choice(index, s.ravel(), row.shape == "captions", add)
        elif row.shape == "pairs":
            pairs.append(index)
            for measure in CHANCE:
                parts.setdefault(measure, [])  # so that measures stand in the order in which their questions come
        elif row.shape == "paraphrases":
            _paraphrases(index, s[:, 0], similar.texts[index], add)
        else:
            statements.append(index)
    of_pairs = _pairs(pairs, similar) if pairs else {}
    outcomes = {
        measure: of_pairs[measure] if measure in of_pairs else _joined(entries) for measure, entries in parts.items()
    }
    if statements:
        scores = np.array([float(similar.values[index].ravel()[0]) for index in statements])
        outcomes["accuracy"] = _with(outcomes.get("accuracy"), _statements(rows, statements, scores, seed))
    return outcomes


def main_outcome(rows: Sequence[SuiteRow], outcomes: Mapping[str, Outcome]) -> Outcome:
    """Whether each question was answered rightly, by the main measure of its shape, in the order of the questions."""
    entries: dict[int, tuple[int, float, bool, float]] = {}
    for measure in dict.fromkeys(MAIN.values()):
        if measure in outcomes:
            for index, *entry in zip(*(column.tolist() for column in outcomes[measure]), strict=True):
                if MAIN[rows[index].shape] == measure:
                    entries[index] = (index, *entry)
    if sorted(entries) != list(range(len(rows))):
        raise ValueError(f"{len(entries)} outcomes of the main measures for {len(rows)} questions")
    return _joined([entries[index] for index in range(len(rows))])


def _choice(index: int, s: NDArray[np.floating], recalls: bool, add: _Add) -> None:
    best = s[1:].max()
    add("accuracy", index, s[0] > best, bool(s[0] == best), 1 / len(s))
    rank = 1 + int((s[1:] >= s[0]).sum())
    if recalls and len(s) > 4:
        for k in (3, 5, 10):
            add(f"R@{k}", index, rank <= k, False, min(1.0, k / len(s)))
        add("mean rank", index, rank, False, (len(s) + 1) / 2)


def _pairs(places: list[int], similar: Similarities) -> dict[str, Outcome]:
    right, tied = comparisons(np.stack([similar.values[index] for index in places]))
    ties = np.column_stack([tied, tied.any(axis=1)])
    rows = np.array(places, np.intp)
    return {
        measure: Outcome(rows, right[:, column].astype(np.float64), ties[:, column], np.full(len(places), chance))
        for column, (measure, chance) in enumerate(CHANCE.items())
    }


def _paraphrases(index: int, s: NDArray[np.floating], own: NDArray[np.floating] | None, add: _Add) -> None:
    positive, negative = s[:-1], s[-1]
    add("both", index, positive.min() > negative, bool((positive == negative).any()), 1 / (len(positive) + 1))
    for name, value in zip(("first", "second"), positive, strict=False):
        add(name, index, value > negative, bool(value == negative), 1 / 2)
    if own is not None:
        together, apart = own[0, 1], own[:2, -1].max()
        add("text only", index, together > apart, bool(together == apart), 1 / 3)


def _statements(
    rows: Sequence[SuiteRow], places: list[int], scores: NDArray[np.float64], seed: int
) -> list[tuple[int, float, bool, float]]:
    """Each statement at the threshold that is best on the other folds; an image lies in one fold."""
    labels = np.array([bool(rows[index].label) for index in places])
    fold = folds_of([rows[index].cluster for index in places], seed)
    accepted = np.zeros(len(places), dtype=bool)
    for k in np.unique(fold):
        inside, outside = fold == k, fold != k
        cut = best_cut(scores[outside & labels], scores[outside & ~labels]) if outside.any() else 0.0
        accepted[inside] = scores[inside] > cut
    chance = max(labels.mean(), 1 - labels.mean())
    return [
        (index, float(says == label), False, float(chance))
        for index, says, label in zip(places, accepted, labels, strict=True)
    ]


def folds_of(clusters: Sequence[str], seed: int) -> NDArray[np.intp]:
    """A fold for each entry; entries of one cluster share theirs."""
    names, at = np.unique(np.asarray(clusters), return_inverse=True)
    folds: NDArray[np.intp] = (np.random.default_rng(seed).permutation(len(names)) % min(FOLDS, len(names)))[at]
    return folds


def _joined(entries: list[tuple[int, float, bool, float]]) -> Outcome:
    places, right, tied, chance = zip(*entries, strict=True)
    return Outcome(np.array(places, np.intp), np.array(right), np.array(tied, bool), np.array(chance))


def _with(outcome: Outcome | None, entries: list[tuple[int, float, bool, float]]) -> Outcome:
    joined = _joined(entries)
    return joined if outcome is None else Outcome(*(np.concatenate(pair) for pair in zip(outcome, joined, strict=True)))


if TYPE_CHECKING:
    from collections.abc import Callable

    _Add = Callable[[str, int, float, bool, float], None]
