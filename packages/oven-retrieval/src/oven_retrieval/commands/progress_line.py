"""One line that tells how far a command is, how fast it goes, and how long it will take."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO

_SECONDS_BETWEEN = {True: 0.2, False: 10.0}


class ProgressLine:
    """Phases of one piece of work as one line on standard error."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._drawn_over = self._stream.isatty()
        self._between = _SECONDS_BETWEEN[self._drawn_over]
        self._phase_began = self._called = self._shown = time.monotonic()
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
        if phase != self._phase:  # a phase begins where the one before was last heard of
            self._phase, self._phase_began = phase, self._called
        self._called = now
        if now - self._shown < self._between:
            return
        self._shown = now
        spent, share = now - self._phase_began, done / max(total, 1)
        rate = f", {done / spent:,.0f} a second" if spent > 0 else ""
        line = f"{phase} {done:,}{rate}"
        if done < total:  # else it is over, or nobody knows how many there will be
            remaining = "" if share <= 0 else f", {_clock(spent * (1 - share) / share)} left"
            line = f"{phase} {done:,} of {total:,}{rate}{remaining}"
        if not self._drawn_over:
            self._stream.write(line + "\n")
        else:
            self._stream.write("\r" + line.ljust(self._width))
            self._width = len(line)
        self._stream.flush()


def _clock(seconds: float) -> str:
    """Seconds as they are read."""
    total = round(seconds)
    minutes, odd = divmod(total, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{odd:02d}" if hours else f"{minutes}:{odd:02d}"
