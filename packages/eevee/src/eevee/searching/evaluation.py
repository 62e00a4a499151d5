"""Scoring candidates once each: a cache, an optional journal on disk, and any `map` to spread the work with."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from eevee.scorers.scorer import batch_size
from eevee.searching.journal import append, open_journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from eevee.progress import Progress
    from eevee.scorers.scorer import Scorer
    from eevee.searching.space import Candidate
    from eevee.tables.standard import Standardised

    MapFunction = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

BEST_CHUNK = 20_000
"""Candidates that one call scores where only the best are kept."""


class Evaluator:
    """Errors of candidates on one table by one scorer, each computed once.

    Args:
        scorer: the meta-model.
        data: the standardised table.
        map_function: like the built-in `map`; one call scores a chunk of candidates. An executor's `map` spreads
            the chunks over processes or machines.
        chunk: candidates for each call; what the scorer wants by default.
        journal: a file that keeps every error. The same search, started again with the same journal, takes the
            errors from it, and so continues where it was stopped, with the same result.
        key: what the journal belongs to (data, scorer, seed); another search refuses it.
        progress: called after every batch with the number of candidates asked for so far.
    """

    def __init__(
        self,
        scorer: Scorer,
        data: Standardised,
        *,
        map_function: MapFunction = map,
        chunk: int | None = None,
        journal: Path | None = None,
        key: str = "",
        progress: Progress | None = None,
    ) -> None:
        self.scorer, self.data, self.map_function, self.progress = scorer, data, map_function, progress
        self.chunk = chunk or batch_size(scorer)
        self.cache: dict[Candidate, tuple[float, float]] = {}
        self.computed = 0
        self.asked = 0
        self.expected = 0  # how many the searcher will ask for, where it knows
        self.journal = journal
        self._restored: dict[Candidate, tuple[float, float]] = {}
        if journal is not None:
            self._restored = open_journal(journal, key)

    def __call__(self, candidates: Sequence[Candidate]) -> list[float]:
        """Errors of candidates, in their order."""
        self.asked += len(candidates)
        new = list(dict.fromkeys(c for c in candidates if c not in self.cache))
        for candidate in new:
            if candidate in self._restored:
                self.cache[candidate] = self._restored[candidate]
        new = [c for c in new if c not in self.cache]
        chunks = [new[i : i + self.chunk] for i in range(0, len(new), self.chunk)]
        for chunk, scores in zip(chunks, self.map_function(partial(self.scorer.score, self.data), chunks), strict=True):
            pairs = [(float(error), float(stderr)) for error, stderr in scores]
            self.cache.update(zip(chunk, pairs, strict=True))
            self.computed += len(chunk)
            if self.journal is not None:
                append(self.journal, chunk, pairs)
        if self.progress is not None:
            self.progress("search", self.asked, self.expected)
        return [self.cache[c][0] for c in candidates]

    def best_of(self, candidates: Sequence[Candidate], count: int) -> list[tuple[float, Candidate]]:
        """The lowest errors of many candidates, of which the others are forgotten, here and in the journal.

        What the journal has of the last candidate it has of all: they are not scored again.
        """
        self.asked += len(candidates)
        last = candidates[-1]
        if last in self._restored:
            inside = set(candidates)
            best = {c: pair for c, pair in self._restored.items() if c in inside}
        else:
            chunks = [candidates[i : i + BEST_CHUNK] for i in range(0, len(candidates), BEST_CHUNK)]
            best = {}
            for lowest in self.map_function(partial(_lowest, self.scorer, self.data, count), chunks):
                best.update(lowest)
            ranked = sorted(best, key=lambda c: (best[c], c))[:count]
            best = {c: best[c] for c in (*ranked, *(() if last in ranked else (last,)))}
            self.computed += len(candidates)
            if self.journal is not None:
                append(self.journal, list(best), list(best.values()))
        self.cache.update(best)
        if self.progress is not None:
            self.progress("search", self.asked, self.expected)
        return sorted((error, candidate) for candidate, (error, _) in best.items())[:count]

    def stderr(self, candidate: Candidate) -> float:
        """Standard error of a candidate that has been scored."""
        return self.cache[candidate][1]


def _lowest(
    scorer: Scorer, data: Standardised, count: int, candidates: Sequence[Candidate]
) -> dict[Candidate, tuple[float, float]]:
    """The candidates with the lowest errors, and the last one."""
    scores = scorer.score(data, candidates)
    places = {*scores[:, 0].argsort(kind="stable")[:count].tolist(), len(candidates) - 1}
    return {candidates[rank]: (float(scores[rank, 0]), float(scores[rank, 1])) for rank in sorted(places)}
