"""Scoring many candidates: each once, spread over processes, and kept in a file from which a search continues."""

from __future__ import annotations

import hashlib
import json
import math
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from eevee.errors import EeveeError
from eevee.scorers.scorer import batch_size
from eevee.tables.record import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from eevee.progress import Progress
    from eevee.scorers.scorer import Scorer
    from eevee.searching.space import Candidate
    from eevee.tables.standard import Standardised

    MapFunction = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
    from collections.abc import Iterator

    Scores = dict[Candidate, tuple[float, float]]


@contextmanager
def open_map(spec: str = "serial") -> Iterator[MapFunction]:
    """A `map` for `select(map_function=...)` and DEAP's toolbox; its workers end with the block.

    Any other `map` works there, too: that of a cluster's pool, for one.

    Args:
        spec: `serial`, or `processes:N` (N workers of this machine). The result does not depend on it.

    Raises:
        EeveeError: an unknown spec.

    Example:
        >>> with open_map() as spread:
        ...     list(spread(abs, [-1, 2]))
        [1, 2]
    """
    kind, _, count = spec.partition(":")
    if count and not (count.isdigit() and int(count) > 0):
        raise EeveeError(f"executor {spec!r}; expected a positive number after the colon")
    if kind == "serial" and not count:
        yield map
    elif kind == "processes":
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        with ProcessPoolExecutor(int(count) if count else None, get_context("spawn"), _one_thread) as pool:
            yield pool.map
    else:
        raise EeveeError(f"executor {spec!r}; expected serial or processes:N")


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def journal_key(*parts: object) -> str:
    """A short hash of what a journal belongs to."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


@contextmanager
def sole_search(journal: Path | None) -> Iterator[None]:
    """Hold a journal, and those of the held-out searches beside it, while a block runs; None holds nothing."""
    if journal is None:
        yield
        return
    lock = FileLock(journal.with_name(f"{journal.name}.lock"), blocking=False)
    try:
        journal.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise EeveeError(f"{journal}: another search works on it; wait for it, or end it") from None
    except OSError as error:
        raise EeveeError(f"{lock.lock_file}: cannot be written ({error.strerror})") from None
    try:
        yield
    finally:
        lock.release()


def append(path: Path, chunk: Sequence[Candidate], pairs: Sequence[tuple[float, float]]) -> None:
    """Add errors and standard errors of candidates."""
    line = json.dumps([[list(c), *pair] for c, pair in zip(chunk, pairs, strict=True)])
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    except OSError as error:
        raise EeveeError(f"{path}: cannot be written ({error.strerror}); what it holds is kept") from None


def open_journal(path: Path, key: str) -> Scores:
    """What a journal holds; begun where it is missing or empty."""
    header = json.dumps({"eevee": "journal", "key": key})
    try:
        if not path.exists() or path.stat().st_size == 0:
            write_text(path, header + "\n")
            return {}
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise EeveeError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise EeveeError(f"{path}: not a journal ({error})") from None
    lines = text.split("\n")
    if lines[0] != header:
        raise EeveeError(
            f"{path}: belongs to another search (other data, scorer, constraints or seed); expected key {key}"
        )
    if not text.endswith("\n"):  # the last line was cut off by an interruption
        write_text(path, "\n".join(lines[:-1]) + "\n")
        lines = lines[:-1]
    restored: Scores = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        try:
            for candidate, mean, stderr in json.loads(line):
                if type(mean) is not float or type(stderr) is not float:
                    raise ValueError("errors are no numbers")
                if math.isfinite(mean):  # what is not is computed again: an error of minus infinity would be chosen
                    restored[tuple(int(i) for i in candidate)] = (mean, stderr)
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise EeveeError(f"{path}, line {number}: not a journal line") from None
    return restored


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
