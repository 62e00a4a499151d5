"""One line that tells how far a command is, how fast it goes, and how long it will take."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TextIO

_SECONDS_BETWEEN = {True: 0.2, False: 10.0}


class ProgressLine:
    """Phases of one piece of work as one line on standard error."""

    def __init__(
        self,
        shares: Mapping[str, float] | None = None,
        stream: TextIO | None = None,
        seconds_between: float | None = None,
    ) -> None:
        self._shares, self._stream = shares, stream or sys.stderr
        self._drawn_over = self._stream.isatty()
        self._between = _SECONDS_BETWEEN[self._drawn_over] if seconds_between is None else seconds_between
        self._began = self._phase_began = self._called = time.monotonic()
        self._shown = self._began
        self._phase, self._width = "", 0

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._width:
            self._stream.write("\n")
            self._stream.flush()

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Show the line, if the last one is old enough; what is done at once shows none."""
        now = time.monotonic()
        if phase != self._phase:
            self._phase, self._phase_began = (
                phase,
                self._called,
            )  # a phase begins where the one before was last heard of
        self._called = now
        if now - self._shown < self._between:
            return
        self._shown = now
        overall = self._whole(phase, done / max(total, 1))
        spent = now - self._began
        took = now - self._phase_began
        rate = f", {done / took:,.0f} a second" if took > 0 else ""  # nothing is known of a phase's first step
        remaining = "" if overall <= 0 else f", {_clock(spent * (1 - overall) / overall)} left"
        line = f"{phase} {done:,} of {total:,}{rate}, {overall:.0%} of all{remaining}"
        if not self._drawn_over:
            self._stream.write(line + "\n")
        else:
            self._stream.write("\r" + line.ljust(self._width))
            self._width = len(line)
        self._stream.flush()

    def _whole(self, phase: str, share: float) -> float:
        """How much of all phases is done."""
        if self._shares is None:
            return share
        before = 0.0
        for name, width in self._shares.items():
            if name == phase:
                return (before + width * share) / sum(self._shares.values())
            before += width
        return before / sum(self._shares.values())


def _clock(seconds: float) -> str:
    """Seconds as they are read."""
    total = round(seconds)
    minutes, odd = divmod(total, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{odd:02d}" if hours else f"{minutes}:{odd:02d}"
