"""What speaks for and against an answer: numbers that a calibration turns into probabilities."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from oven_retrieval.names import STEPS, NameLinker
from oven_retrieval.ranking import Ranking
from oven_retrieval.tokens import fold

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int64


_KINDS = ("spelled", "typo", "ngrams", "bm25")
_OF_EACH = (
    "there", "an alias", "folded", "inflected", "rivals", "popularity", "share of the rivals' popularity",
    "idf of the query that the name has", "idf of the name that the query has", "common trigrams",
    "rarest word that the name lacks", "unknown words", "lead over the second", "edits", "words", "characters",
)  # fmt: skip
NAME_FEATURES = tuple(f"{kind}: {name}" for kind in _KINDS for name in _OF_EACH)
_RIVALS = 8
"""So many links of a name are looked at."""
_TYPO, _NGRAMS, _BM25 = (STEPS.index(step) for step in _KINDS[1:])


def name_features(linker: NameLinker, names: Sequence[str]) -> tuple[Ranking, Float64[np.ndarray, "q f"]]:
    """Link names, and say of each best link what tells whether it is right.

    Four kinds of links have weights of their own: those whose name is as asked (exact, folded, inflected), typos, those
    of n-grams, and BM25's. Of each: how many others are as good and how popular they are, what part of the query's and
    of the name's words agree (weighted by idf), how alike they are written, the rarest word that the name lacks, the
    lead over the second. All are scaled by the knowledge base, so that a model fitted on one can serve another.

    Example:
        >>> from oven_retrieval import KnowledgeBase, build_linker
        >>> linker = build_linker(KnowledgeBase.from_names(["Wood duck", "Goose"]))
        >>> links, features = name_features(linker, ["goose", "duck pond", "moon"])
        >>> dict(zip(NAME_FEATURES, features[1].round(2).tolist(), strict=True))["bm25: unknown words"]
        1.0
    """
    names = list(names)  # by place: a pandas series is indexed by its labels
    links = _links_with_rivals(linker, names)
    features = np.full((len(names), len(_KINDS), len(_OF_EACH)), np.nan)
    evidence = _Evidence(linker)
    for number, (name, rows, steps, scores) in enumerate(
        zip(names, links.rows, links.kinds, links.scores, strict=True)
    ):
        count = int((rows >= 0).sum())
        if count:
            kind = max(0, int(steps[0]) - _TYPO + 1)
            features[number] = 0.0
            features[number, kind] = evidence.of(name, rows[:count], steps[:count], scores[:count])
    return links, features.reshape(len(names), -1)


def _links_with_rivals(linker: NameLinker, names: Sequence[str]) -> Ranking:
    """The best links, [q, 8]; behind a name as asked come only others of that kind, which spares the slower steps."""
    count = min(_RIVALS, len(linker.kb))
    links = linker.link(names, count, guesses=False)
    guessed = np.flatnonzero(links.rows[:, 0] < 0)
    if len(guessed):
        guesses = linker.link([names[i] for i in guessed.tolist()], count)
        for name in ("rows", "scores", "kinds"):
            getattr(links, name)[guessed] = getattr(guesses, name)
    return links


class _Evidence:
    """What speaks for and against the best link of a name."""

    def __init__(self, linker: NameLinker) -> None:
        self._linker, self._kb = linker, linker.kb
        self._names = len(linker.kb) + len(linker.kb.aliases)
        self._usual = float(_not_below_0(linker.kb.popularity).mean()) or 1.0

    def of(
        self,
        name: str,
        rows: Int64[np.ndarray, " k"],
        steps: Int64[np.ndarray, " k"],
        scores: Float64[np.ndarray, " k"],
    ) -> list[float]:
        """One number for each of `_OF_EACH`."""
        step, score = int(steps[0]), float(scores[0])
        second = 0.0
        if step >= _NGRAMS:
            own = scores[steps == step]
            near = int((own >= 0.9 * score).sum())
            second = float(own[1]) if len(own) > 1 else 0.0
        elif step == _TYPO:
            near = int(((steps == _TYPO) & (scores == score)).sum())
        else:
            near = int((steps < _TYPO).sum())
        popularity = _not_below_0(self._kb.popularity[rows[:near]]) / self._usual
        tokens = list(dict.fromkeys(self._linker.tokenize(name)))
        weight, is_known = self._idf(tokens)
        alike, held = self._nearest_name(name, int(rows[0]))
        shared = np.array([token in held for token in tokens], np.bool_)
        common = float(weight[shared].sum())
        return [
            1.0,
            float(step in (1, 3, 5)),
            float(step in (2, 3)),
            float(step in (4, 5)),
            math.log1p(near - 1),
            math.log1p(float(popularity[0])),
            float((popularity[0] + 1) / (popularity + 1).sum()),
            common / max(float(weight.sum()), 1e-9),
            common / max(float(self._idf(list(held))[0].sum()), 1e-9),
            alike,
            float(weight[~shared].max(initial=0.0)),
            float((~is_known).sum()),
            (score - second) / score if step >= _NGRAMS and score > 0 else 0.0,
            -score if step == _TYPO else 0.0,
            math.log1p(len(tokens)),
            math.log1p(len(name)),
        ]

    def _idf(self, tokens: Sequence[str]) -> tuple[Float64[np.ndarray, " t"], Bool[np.ndarray, " t"]]:
        """Inverse document frequency, 1 for a token of no name and 0 for one of all; and whether it is known."""
        count = self._linker.engine.document_frequency(tokens)
        return 1 - np.log1p(count) / math.log1p(self._names), count > 0

    def _nearest_name(self, name: str, row: int) -> tuple[float, set[str]]:
        """Of the entity's names the one most like a text: how alike, and its tokens."""
        own = [self._kb.names[row], *(self._kb.aliases[i] for i in self._kb.alias_rows(row)[:_RIVALS])]
        trigrams = _trigrams(name)
        alike = [_dice(trigrams, _trigrams(text)) for text in own]
        best = max(range(len(own)), key=alike.__getitem__)
        return alike[best], set(self._linker.tokenize(own[best]))


def _trigrams(text: str) -> Counter[str]:
    padded = f" {fold(text)} "
    return Counter(padded[i : i + 3] for i in range(len(padded) - 2))


def _dice(first: Counter[str], second: Counter[str]) -> float:
    """Twice what both have, of what they have together."""
    return 2 * (first & second).total() / max(first.total() + second.total(), 1)


def _not_below_0(popularity: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    """Popularity as a count: what is below 0, such as -1 for an unknown one, has no logarithm and counts as none."""
    return np.asarray(np.maximum(popularity, 0.0))
