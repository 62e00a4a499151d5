"""How long a run still takes, from each phase's own rate; nothing is said rather than something wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gate_runner.runs.observers import Planned

_FITTED = 0.002
"""Seconds that a solved head takes for each picture, about: a small share where encoding takes long."""
_ENOUGH_SECONDS, _ENOUGH_SHARE = 1.0, 0.02
"""Of a phase, watched, before its rate is believed."""
_FEW_STEPS = 8
"""Steps of a training that are solved heads, each after a pass of its own over the images."""

Key = tuple[str, int]


@dataclass
class _Phase:
    """A phase as far as it was watched: what had been done when it was first seen counts for nothing."""

    name: str
    since: float
    first: int
    done: int
    total: int


@dataclass
class _UnderWay:
    """A part that has started."""

    since: float
    images: int = 0
    phase: _Phase | None = None
    encoded: dict[str, int] = field(default_factory=dict)
    watched: int = 0
    encoding: float = 0.0
    encoded_at: float | None = None
    fits: list[float] = field(default_factory=list)
    heads: int = 0


class Pace:
    """Seconds that are left of a run.

    A part that encodes is timed by its own images a second and how many there are in all; one that trains by its own
    steps; a part that has not begun by a plan's measurement, by the same benchmark with another seed, or by those that
    are over, as their costs relate. Where a phase to come has no known share, there is none until it is under way.

    Args:
        parts: of the run.
        workers: that compute at the same time.
        clock: seconds.

    Example:
        >>> now = 0.0
        >>> pace = Pace([Planned("digits", 0, 20.0, False)], clock=lambda: now)
        >>> pace.start(("digits", 0))
        >>> pace.progress(("digits", 0), "images", 0, 1000)
        >>> pace.progress(("digits", 0), "encode train", 0, 500)
        >>> now = 5.0
        >>> pace.progress(("digits", 0), "encode train", 250, 500)
        >>> pace.left()
        17.0
    """

    def __init__(
        self, parts: Sequence[Planned] = (), workers: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.parts = {(part.name, part.seed): part for part in parts if not part.done}
        self.workers, self.clock = workers, clock
        self.under_way: dict[Key, _UnderWay] = {}
        self.again: dict[str, float] = {}
        self.spent = self.planned = 0.0

    def start(self, key: Key) -> None:
        """A part begins, perhaps again."""
        self.under_way[key] = _UnderWay(self.clock())

    def progress(self, key: Key, phase: str, done: int, total: int) -> None:
        """A part is so far."""
        part = self.under_way.setdefault(key, _UnderWay(self.clock()))
        now = self.clock()
        if phase == "images":
            part.images = total
            return
        before = part.phase
        if before is None or before.name != phase:
            part.phase = before = _Phase(phase, now, done, done, total)
            new = 0  # what the first batch took began in another phase, or it was in a cache
        else:
            new = max(0, done - part.encoded.get(phase, before.first))
        if _encodes(phase):
            part.encoded[phase] = max(done, part.encoded.get(phase, 0))
            if new and part.encoded_at is not None:
                part.encoding += now - part.encoded_at
                part.watched += new
            part.encoded_at = now
        else:
            if part.encoded_at is not None and phase == "train" and total <= _FEW_STEPS:
                part.fits.append(now - part.encoded_at)
                part.heads = total
            part.encoded_at = None
        before.done, before.total = done, total

    def finish(self, key: Key, seconds: float, encoding: float = 0.0) -> None:
        """Learn from a part that is over: how long it took, and how much of that was data and encoding."""
        part = self.parts.pop(key, None)
        self.under_way.pop(key, None)
        self.again[key[0]] = max(0.0, seconds - encoding)
        if part is not None and part.seconds is not None:
            self.planned += part.seconds
            self.spent += seconds

    def stop(self, key: Key) -> None:
        """Another process computes it."""
        self.under_way.pop(key, None)

    def left(self) -> float | None:
        """Seconds until the end; None where nobody knows."""
        now, ahead = self.clock(), 0.0
        spent, planned = self.spent, self.planned
        for key in self.under_way:
            seconds = self.left_of(key)
            if seconds is None:
                return None
            ahead += seconds
            part = self.parts.get(key)
            if part is not None and part.seconds is not None:
                spent += now - self.under_way[key].since + seconds
                planned += part.seconds
        for key, part in self.parts.items():
            if key in self.under_way:
                continue
            if part.measured and part.seconds is not None:
                ahead += part.seconds
            elif not part.trained and key[0] in self.again:
                ahead += self.again[key[0]]
            elif not part.trained and not part.steps and (same := self._same(key[0])) is not None:
                ahead += self._heads_of(same)  # another seed of what is under way takes its features from the cache
            elif planned and part.seconds is not None and not part.trained:
                ahead += part.seconds * spent / planned
            else:
                return None
        return ahead / self.workers

    def left_of(self, key: Key) -> float | None:
        """Seconds until a part under way is over; None where nobody knows."""
        part, planned = self.under_way[key], self.parts.get(key)
        now, phase = self.clock(), part.phase
        if (
            phase is not None
            and phase.name.startswith("train")
            and phase.name != "train head"
            and phase.total > _FEW_STEPS
        ):
            return self._by_steps(phase, now)
        if planned is not None and planned.measured and planned.seconds is not None:
            return max(0.0, planned.seconds - (now - part.since))
        if key[0] in self.again and planned is not None and not planned.trained:
            return max(0.0, self.again[key[0]] - (now - part.since))
        if planned is not None and (planned.trained or planned.steps):
            return None  # its training has a rate of its own, which nothing before it tells
        if not part.images or part.encoding < _ENOUGH_SECONDS or part.watched < _ENOUGH_SHARE * part.images:
            return None
        to_encode = max(0, part.images - sum(part.encoded.values()))
        fitting = self._heads_of(part, solved=len(part.fits))
        if to_encode == 0 and part.encoded_at is not None:
            fitting = max(0.0, fitting - (now - part.encoded_at))
        return to_encode * part.encoding / part.watched + fitting

    def _same(self, name: str) -> _UnderWay | None:
        """What is under way of the same benchmark, as soon as its images are counted."""
        return next((part for (other, _), part in self.under_way.items() if other == name and part.images), None)

    @staticmethod
    def _heads_of(part: _UnderWay, solved: int = 0) -> float:
        """Seconds for a part's heads, but for those that are solved."""
        return sum(part.fits) / len(part.fits) * (part.heads - solved) if part.fits else _FITTED * part.images

    @staticmethod
    def _by_steps(phase: _Phase, now: float) -> float | None:
        """Of a phase that counts its own steps."""
        seconds, steps = now - phase.since, phase.done - phase.first
        if seconds < _ENOUGH_SECONDS or steps < _ENOUGH_SHARE * phase.total:
            return None
        return seconds / steps * (phase.total - phase.done)

    def share_of(self, key: Key) -> float:
        """How much of a part is over, from 0 to 1, as far as that is known."""
        part, seconds = self.under_way[key], self.left_of(key)
        passed = self.clock() - part.since
        if seconds is not None:
            return passed / (passed + seconds) if passed + seconds else 0.0
        return 0.5 * min(1.0, sum(part.encoded.values()) / part.images) if part.images else 0.0


def _encodes(phase: str) -> bool:
    """Whether a phase is pictures of a split through the encoder, of whatever kind of features."""
    return phase.startswith("encode ") and not phase.endswith(("texts", "captions"))
