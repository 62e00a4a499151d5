"""Scoring candidates once each: a cache, an optional journal on disk, and any `map` to spread the work with."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from eevee.errors import EeveeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtyping import Float

    from eevee.space import Candidate
    from eevee.standard import Standardised

    MapFunction = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


class Scorer(Protocol):
    """A meta-model that judges candidates; `RidgeScorer` and `MlpScorer` are two."""

    @property
    def name(self) -> str:
        """Name in prints and results."""

    @property
    def objective(self) -> Any:
        """Name of the objective."""

    def score(self, data: Standardised, candidates: Sequence[Sequence[int]]) -> Float[np.ndarray, "b 2"]:
        """Error and standard error of each candidate."""

    def predict(
        self, data: Standardised, candidate: Sequence[int], inputs: Float[np.ndarray, "m metrics"]
    ) -> Float[np.ndarray, "m metrics"]:
        """Whole standardised rows of new models, from their candidate columns."""


class Evaluator:
    """Errors of candidates on one table by one scorer, each computed once.

    Args:
        scorer: the meta-model.
        data: the standardised table.
        map_function: like the built-in `map`; one call scores a chunk of candidates. An executor's `map` spreads
            the chunks over processes or machines.
        chunk: candidates for each call.
        journal: a file that keeps every error. The same search, started again with the same journal, takes the
            errors from it, and so continues where it was stopped, with the same result.
        key: what the journal belongs to (data, scorer, seed); another search refuses it.
        progress: called with (evaluations so far, lowest error so far) after every batch.
    """

    def __init__(
        self,
        scorer: Scorer,
        data: Standardised,
        *,
        map_function: MapFunction = map,
        chunk: int = 500,
        journal: Path | None = None,
        key: str = "",
        progress: Callable[[int, float], None] | None = None,
    ) -> None:
        self.scorer, self.data, self.map_function, self.chunk, self.progress = (
            scorer,
            data,
            map_function,
            chunk,
            progress,
        )
        self.cache: dict[Candidate, tuple[float, float]] = {}
        self.computed = 0
        self.asked = 0
        self.journal = journal
        self._restored: dict[Candidate, tuple[float, float]] = {}
        if journal is not None:
            self._restored = _open_journal(journal, key)

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
                _append(self.journal, chunk, pairs)
        if self.progress is not None and self.cache:
            self.progress(len(self.cache), min(error for error, _ in self.cache.values()))
        return [self.cache[c][0] for c in candidates]

    def stderr(self, candidate: Candidate) -> float:
        """Standard error of a candidate that has been scored."""
        return self.cache[candidate][1]


def journal_key(*parts: object) -> str:
    """A short hash of what a journal belongs to."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _append(path: Path, chunk: Sequence[Candidate], pairs: Sequence[tuple[float, float]]) -> None:
    line = json.dumps([[list(c), *pair] for c, pair in zip(chunk, pairs, strict=True)])
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def _open_journal(path: Path, key: str) -> dict[Candidate, tuple[float, float]]:
    header = json.dumps({"eevee": "journal", "key": key})
    if not path.exists() or path.stat().st_size == 0:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(header + "\n", encoding="utf-8")
        return {}
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    if lines[0] != header:
        raise EeveeError(
            f"{path}: belongs to another search (other data, scorer, constraints or seed); expected key {key}"
        )
    if not text.endswith("\n"):  # the last line was cut off by an interruption
        path.write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")
        lines = lines[:-1]
    restored: dict[Candidate, tuple[float, float]] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        try:
            for candidate, error, stderr in json.loads(line):
                restored[tuple(int(i) for i in candidate)] = (float(error), float(stderr))
        except (ValueError, TypeError):
            raise EeveeError(f"{path}, line {number}: not a journal line") from None
    return restored
