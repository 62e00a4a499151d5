"""How long a run still takes, from what it was seen to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gate_runner.runs.observers import Planned

_FITTED = 0.0008
"""Seconds that solved heads take for each image, about, before the first is solved and known; on two cores that
eight processes shared, digits took .9 ms and the stand-in of ImageNet 2 ms."""
_ENOUGH_SECONDS, _ENOUGH_SHARE = 0.5, 0.02
"""Of a phase, watched, before its rate is believed."""
_WARM = 5.0
"""Seconds that a part's first batch takes at least, if it is to count: warming up is little of it then."""
_CACHED = 0.5
"""Of a part's images, that nobody saw being encoded: from there on they came from the cache."""
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
    """A unit that has started."""

    since: float
    images: int = 0
    phase: _Phase | None = None
    encoded: dict[str, int] = field(default_factory=dict)
    watched: int = 0
    encoding: float = 0.0
    encoded_at: float | None = None
    fits: list[float] = field(default_factory=list)
    heads: int = 0
    fitted: float = _FITTED


class Eta:
    """Seconds that are left of a run.

    A unit that encodes is timed by its own images a second and how many there are in all; one that trains by its own
    steps; a unit that has not begun by a plan's measurement, by the same benchmark with another seed, or by those of
    its kind (solved heads, or trained ones) that are over or under way, as their costs relate. Where a phase to come
    has no known share, there is none until it is under way.
    """

    def __init__(
        self, units: Sequence[Planned] = (), workers: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.units = {(unit.name, unit.seed): unit for unit in units if not unit.done}
        self.workers, self.clock = workers, clock
        self.under_way: dict[Key, _UnderWay] = {}
        self.again: dict[str, float] = {}
        self.paces: dict[bool, list[tuple[float, float]]] = {}

    def start(self, key: Key) -> None:
        """A unit begins, perhaps again."""
        self.under_way[key] = _UnderWay(self.clock(), fitted=2 * _FITTED if "readout=" in key[0] else _FITTED)

    def progress(self, key: Key, phase: str, done: int, total: int) -> None:
        """A unit is so far."""
        unit = self.under_way.setdefault(key, _UnderWay(self.clock()))
        now = self.clock()
        if phase == "images":
            unit.images = total
            return
        before = unit.phase
        if before is None or before.name != phase:
            unit.phase = before = _Phase(phase, now, done, done, total)
            new = 0  # what the first batch took began in another phase, or it was in a cache
        else:
            seen = unit.encoded.get(phase, before.first)
            begun = now if unit.encoded_at is None else unit.encoded_at
            counts = seen or unit.watched or now - begun > _WARM  # in a short first batch the encoder warms up
            new = max(0, done - seen) if counts else 0
        if _encodes(phase):
            unit.encoded[phase] = max(done, unit.encoded.get(phase, 0))
            if new and unit.encoded_at is not None:
                unit.encoding += now - unit.encoded_at
                unit.watched += new
            unit.encoded_at = now
        else:
            if unit.encoded_at is not None and phase == "train" and total <= _FEW_STEPS:
                unit.fits.append(now - unit.encoded_at)
                unit.heads = total
            unit.encoded_at = None
        before.done, before.total = done, total

    def finish(self, key: Key, seconds: float, encoding: float = 0.0) -> None:
        """Learn from a unit that is over: how long it took, and how much of that was data and encoding."""
        planned, unit = self.units.pop(key, None), self.under_way.pop(key, None)
        self.again[key[0]] = max(0.0, seconds - encoding)
        if planned is not None and planned.seconds is not None and _is_fresh(unit):
            self.paces.setdefault(planned.steps, []).append((seconds, planned.seconds))

    def stop(self, key: Key) -> None:
        """Another process computes it."""
        self.under_way.pop(key, None)

    def left(self) -> float | None:
        """Seconds until the end; None where nobody knows."""
        now, ahead = self.clock(), 0.0
        own = {key: self.left_of(key) for key in self.under_way}
        paces = {kind: list(pairs) for kind, pairs in self.paces.items()}
        for key, seconds in own.items():
            planned, unit = self.units.get(key), self.under_way[key]
            if seconds is not None and planned is not None and planned.seconds is not None and _is_fresh(unit):
                paces.setdefault(planned.steps, []).append((now - unit.since + seconds, planned.seconds))
        for key in dict.fromkeys((*self.under_way, *self.units)):
            seconds = own.get(key)
            if seconds is None:
                seconds = self._expected(key, paces)
                passed = now - self.under_way[key].since if key in self.under_way else 0.0
                seconds = None if seconds is None else max(0.0, seconds - passed)
            if seconds is None:
                return None
            ahead += seconds
        return ahead / self.workers

    def _expected(self, key: Key, paces: Mapping[bool, Sequence[tuple[float, float]]]) -> float | None:
        """Seconds that a unit takes whose own pace nobody knows yet; None where nothing tells them."""
        planned = self.units.get(key)
        if planned is None:
            return None
        if planned.measured:
            return planned.seconds
        if planned.trained:
            return None  # its training has a rate of its own, which nothing before it tells
        if key[0] in self.again:
            return self.again[key[0]]
        if key not in self.under_way and not planned.steps and (same := self._same(key[0])) is not None:
            return self._heads_of(same)  # another seed of what is under way takes its features from the cache
        pairs = paces.get(planned.steps)
        if planned.seconds is None or not pairs:
            return None
        return planned.seconds * sum(seconds for seconds, _ in pairs) / sum(cost for _, cost in pairs)

    def left_of(self, key: Key) -> float | None:
        """Seconds until a unit under way is over; None where nobody knows."""
        unit, planned = self.under_way[key], self.units.get(key)
        now, phase = self.clock(), unit.phase
        if phase is not None and _counts_steps(phase):
            seconds, steps = now - phase.since, phase.done - phase.first
            watched = seconds >= _ENOUGH_SECONDS and steps >= _ENOUGH_SHARE * phase.total
            return seconds / steps * (phase.total - phase.done) if watched and steps else None
        if planned is not None and planned.measured and planned.seconds is not None:
            return max(0.0, planned.seconds - (now - unit.since))
        if key[0] in self.again and planned is not None and not planned.trained:
            return max(0.0, self.again[key[0]] - (now - unit.since))
        if planned is not None and (planned.trained or planned.steps):
            return None  # its training has a rate of its own, which nothing before it tells
        if not unit.images or unit.encoding < _ENOUGH_SECONDS or unit.watched < _ENOUGH_SHARE * unit.images:
            return None
        to_encode = max(0, unit.images - sum(unit.encoded.values()))
        fitting = self._heads_of(unit, solved=len(unit.fits))
        if to_encode == 0 and unit.encoded_at is not None:
            fitting = max(0.0, fitting - (now - unit.encoded_at))
        return to_encode * unit.encoding / unit.watched + fitting

    def _same(self, name: str) -> _UnderWay | None:
        """What is under way of the same benchmark, as soon as its images are counted."""
        return next((unit for (other, _), unit in self.under_way.items() if other == name and unit.images), None)

    @staticmethod
    def _heads_of(unit: _UnderWay, solved: int = 0) -> float:
        """Seconds for a part's heads, but for those that are solved."""
        return sum(unit.fits) / len(unit.fits) * (unit.heads - solved) if unit.fits else unit.fitted * unit.images

    def share_of(self, key: Key) -> float:
        """How much of a unit is over, from 0 to 1, as far as that is known."""
        unit, seconds = self.under_way[key], self.left_of(key)
        passed = self.clock() - unit.since
        if seconds is not None:
            return passed / (passed + seconds) if passed + seconds else 0.0
        return 0.5 * min(1.0, sum(unit.encoded.values()) / unit.images) if unit.images else 0.0


def _counts_steps(phase: _Phase) -> bool:
    """Whether a phase tells its own end: steps of a training, or read-outs that are judged."""
    trains = phase.name.startswith("train") and phase.name != "train head" and phase.total > _FEW_STEPS
    return trains or phase.name == "choose read-out"


def _is_fresh(unit: _UnderWay | None) -> bool:
    """Whether a part's time tells of others: one that takes its features from the cache is over too soon."""
    return unit is None or sum(unit.encoded.values()) - unit.watched <= _CACHED * unit.images


def _encodes(phase: str) -> bool:
    """Whether a phase is images of a split through the encoder, of whatever kind of features."""
    return phase.startswith("encode ") and not phase.endswith(("texts", "captions"))
