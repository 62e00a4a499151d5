"""Scoring many candidates: each once, and spread over workers where a `map` is given."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from eevee.progress import Progress
    from eevee.scorers.scorer import Scorer
    from eevee.searching.space import Candidate
    from eevee.tables.standard import Standardised

    MapFunction = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

CHUNK = 500
"""Candidates that a scorer gets at a time where it does not say."""
BEST_CHUNK = 20_000
"""Candidates that one call scores where only the best are kept."""


class Evaluator:
    """Errors of candidates on one table by one scorer, each computed once."""

    def __init__(
        self,
        scorer: Scorer,
        data: Standardised,
        *,
        map_function: MapFunction = map,
        chunk: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.scorer, self.data, self.map_function, self.progress = scorer, data, map_function, progress
        self.chunk = chunk if chunk is not None else int(getattr(scorer, "batch", CHUNK))
        self.cache: dict[Candidate, tuple[float, float]] = {}
        self.asked = 0
        self.expected = 0  # how many the searcher will ask for, where it knows

    def __call__(self, candidates: Sequence[Candidate]) -> list[float]:
        """Errors of candidates, in their order."""
        self.asked += len(candidates)
        new = list(dict.fromkeys(c for c in candidates if c not in self.cache))
        chunks = [new[i : i + self.chunk] for i in range(0, len(new), self.chunk)]
        for chunk, scores in zip(chunks, self.map_function(partial(self.scorer.score, self.data), chunks), strict=True):
            pairs = [(float(error), float(stderr)) for error, stderr in scores]
            self.cache.update(zip(chunk, pairs, strict=True))
        if self.progress is not None:
            self.progress("search", self.asked, self.expected)
        return [self.cache[c][0] for c in candidates]

    def best_of(self, candidates: Sequence[Candidate], count: int) -> list[tuple[float, Candidate]]:
        """The lowest errors of many candidates, of which the others are forgotten."""
        self.asked += len(candidates)
        chunks = [candidates[i : i + BEST_CHUNK] for i in range(0, len(candidates), BEST_CHUNK)]
        best: dict[Candidate, tuple[float, float]] = {}
        for lowest in self.map_function(partial(_lowest, self.scorer, self.data, count), chunks):
            best.update(lowest)
        ranked = sorted(best, key=lambda c: (best[c], c))[:count]
        self.cache.update((c, best[c]) for c in ranked)
        if self.progress is not None:
            self.progress("search", self.asked, self.expected)
        return [(best[c][0], c) for c in ranked]

    def stderr(self, candidate: Candidate) -> float:
        """Standard error of a candidate that has been scored."""
        return self.cache[candidate][1]


def _lowest(
    scorer: Scorer, data: Standardised, count: int, candidates: Sequence[Candidate]
) -> dict[Candidate, tuple[float, float]]:
    scores = scorer.score(data, candidates)
    ranked = scores[:, 0].argsort(kind="stable")[:count].tolist()
    return {candidates[rank]: (float(scores[rank, 0]), float(scores[rank, 1])) for rank in ranked}
