"""How far a build is, how long the rest will take and how large it gets."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, replace

#: Jobs and seconds after which the first estimate is given.
SAMPLES, SAMPLE_SECONDS = 24, 2.0
#: Seconds of the recent past from which the time left is told: a machine gets other work, and loses it again.
RECENT = 120.0


@dataclass(frozen=True)
class BuildStatus:
    """How far a build is.

    Args:
        done: Jobs of a finite builder, or pairs of an endless one, that are finished.
        total: Of those, how many there will be.
        pairs: Pairs kept so far.
        dropped: Pairs dropped so far.
        bytes: Size of what is written.
        seconds: Time spent by this process.
        seconds_left: Estimate, or None before the first few jobs are timed.
        bytes_total: Estimate of the size at the end, or None.

    Example:
        >>> import tempfile
        >>> from eqben_builder.building import build
        >>> from eqben_builder.micro.builder import MicroBuilder
        >>> seen = []
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = build(MicroBuilder(aspects=["count"], size=32), folder, pairs=3, observe=seen.append)
        >>> seen[-1].pairs, seen[-1].total, seen[-1].seconds > 0
        (3, 3, True)
    """

    done: int
    total: int
    pairs: int
    dropped: int
    bytes: int
    seconds: float
    seconds_left: float | None = None
    bytes_total: int | None = None


class Clock:
    """Times the jobs of one process, and tells from the recent ones what is left."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self._recent: deque[tuple[float, int]] = deque()
        self._begun = BuildStatus(0, 0, 0, 0, 0, 0.0)

    def estimate(self, now: BuildStatus) -> BuildStatus:
        """The status with its estimates, once enough jobs are timed."""
        if not self._recent:
            # The clock of the estimate starts here: engines are loaded by now.
            self._begun = now
        self._recent.append((now.seconds, now.done))
        while len(self._recent) > SAMPLES + 1 and now.seconds - self._recent[1][0] > RECENT:
            self._recent.popleft()
        since, done_then = self._recent[0]
        if len(self._recent) <= SAMPLES or now.seconds - since < SAMPLE_SECONDS or now.done <= done_then:
            return now
        return replace(
            now,
            seconds_left=(now.total - now.done) / (now.done - done_then) * (now.seconds - since),
            bytes_total=now.bytes + round(self.left(now) * (now.bytes - self._begun.bytes)),
        )

    def left(self, now: BuildStatus) -> float:
        """How many times what was done since the clock's start is still to be done."""
        return (now.total - now.done) / (now.done - self._begun.done)
