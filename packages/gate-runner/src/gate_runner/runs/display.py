"""What a run shows: bars with an estimate on a terminal, plain lines in a pipe, and a table at the end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from gate_runner.runs.results import Result

Planned = tuple[str, int, float, bool]
"""Name, seed, expected seconds, and whether the result is already there."""

_PHASE_SHARES = {"data": 0.15, "encode train": 0.3, "encode validation": 0.05, "encode test": 0.15, "train": 0.33}
"""Shares of a benchmark's time, in order; what is missing is the test."""


class Display(Protocol):
    """What `run` tells about itself."""

    def start(self, encoder: str, output: Path) -> None:
        """All names are known; the encoder is about to be loaded."""

    def plan(self, parts: Sequence[Planned]) -> None:
        """The checks are over; this is what will run."""

    def begin(self, name: str, seed: int) -> None:
        """A benchmark starts."""

    def progress(self, phase: str, done: int, total: int) -> None:
        """The benchmark is so far."""

    def finish(self, result: Result) -> None:
        """The benchmark is over."""

    def table(self, results: Sequence[Result]) -> None:
        """Everything is over."""


class Estimate:
    """Seconds that are left: planned costs, corrected by how long what is over has really taken."""

    def __init__(self, parts: Sequence[Planned]) -> None:
        self.left = {(name, seed): cost for name, seed, cost, done in parts if not done}
        self.planned = self.taken = 0.0

    def finish(self, name: str, seed: int, seconds: float) -> None:
        """Learn from a benchmark that is over."""
        self.planned += self.left.pop((name, seed))
        self.taken += seconds

    def remaining(self, share_of_current: float = 0.0, current: tuple[str, int] | None = None) -> float:
        """Seconds left.

        Example:
            >>> estimate = Estimate([("a", 0, 10.0, False), ("b", 0, 20.0, False)])
            >>> estimate.finish("a", 0, 5.0)
            >>> estimate.remaining()
            10.0
        """
        pace = self.taken / self.planned if self.planned else 1.0
        total = sum(self.left.values())
        if current is not None:
            total -= share_of_current * self.left.get(current, 0.0)
        return pace * total


class PlainDisplay:
    """One line when a benchmark starts and one when it is over: for pipes and log files.

    Args:
        console: where lines go; standard output by default.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, soft_wrap=True)
        self.estimate = Estimate([])
        self.count = self.over = 0

    def start(self, encoder: str, output: Path) -> None:
        """Name the encoder and the folder."""
        self._line(f"encoder {encoder}, results in {output}")

    def plan(self, parts: Sequence[Planned]) -> None:
        """Say how much is there already and how long the rest may take."""
        self.estimate = Estimate(parts)
        self.count, self.over = len(parts), sum(done for *_, done in parts)
        kept = f", {self.over} already there" if self.over else ""
        self._line(f"{self.count} to run{kept}, about {clock(self.estimate.remaining())}")

    def begin(self, name: str, seed: int) -> None:
        """Note the start."""
        self._line(f"[{self.over + 1}/{self.count}] {name} seed {seed} ...")

    def progress(self, phase: str, done: int, total: int) -> None:
        """A pipe is told of whole benchmarks only."""

    def finish(self, result: Result) -> None:
        """Print the score, and what is left."""
        seconds = result.seconds["total"]
        self.estimate.finish(result.name, result.seed, seconds)
        self.over += 1
        left = f", about {clock(self.estimate.remaining())} left" if self.over < self.count else ""
        self._line(
            f"[{self.over}/{self.count}] {result.name} seed {result.seed}: {summary(result)}, {seconds:.1f} s{left}"
        )

    def table(self, results: Sequence[Result]) -> None:
        """Print all rows."""
        self.console.print(results_table(results), soft_wrap=False)

    def _line(self, text: str) -> None:
        self.console.print(escape(text))


class BarDisplay(PlainDisplay):
    """The same with a bar for the benchmark under way and one for the whole: for terminals."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
        )
        self.current: tuple[str, int] = ("", 0)
        self.shown = 0.0

    def plan(self, parts: Sequence[Planned]) -> None:
        """Start the bars."""
        super().plan(parts)
        left = f"about {clock(self.estimate.remaining())} left"
        self.whole = self.bars.add_task("all", total=1.0, left=left)
        self.one = self.bars.add_task("", total=1.0, left="")
        self.bars.start()

    def begin(self, name: str, seed: int) -> None:
        """Reset the benchmark's bar."""
        self.current = (name, seed)
        self.bars.reset(self.one, description=escape(name), left="")

    def progress(self, phase: str, done: int, total: int) -> None:
        """Move both bars, at most ten times a second."""
        now = time.monotonic()
        if now - self.shown < 0.1 and done < total:
            return
        self.shown = now
        before = 0.0
        for name, width in _PHASE_SHARES.items():
            if name == phase:
                before += width * done / max(total, 1)
                break
            before += width
        self.bars.update(self.one, completed=min(before, 1.0), left=phase)
        left = self.estimate.remaining(min(before, 1.0), self.current)
        whole = (self.over + min(before, 1.0)) / max(self.count, 1)
        self.bars.update(self.whole, completed=whole, left=f"about {clock(left)} left")

    def finish(self, result: Result) -> None:
        """Print the score above the bars."""
        super().finish(result)
        self.bars.update(self.whole, completed=self.over / self.count)

    def table(self, results: Sequence[Result]) -> None:
        """Take the bars away and print all rows."""
        self.close()
        super().table(results)

    def close(self) -> None:
        """Take the bars away."""
        self.bars.stop()


def results_table(results: Sequence[Result]) -> Table:
    """Score, metric, chance, interval, seconds and source of every result; a failed one shows its reason.

    Args:
        results: in the order of the rows.

    Returns:
        A table for any rich console.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 1), collapse_padding=True, header_style="bold")
    table.add_column("benchmark", no_wrap=True)
    for column in ("score", "95 % CI", "chance"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("metric", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    table.add_column("source", overflow="fold")
    for result in results:
        seeded = result.name if len({one.seed for one in results}) == 1 else f"{result.name} seed {result.seed}"
        seconds = f"{result.seconds['total']:.0f}"
        score = result.headline
        if score is None:
            table.add_row(escape(seeded), "failed", "", "", "", seconds, escape(result.reason))
            continue
        arrow = "↑" if score.direction == "higher" else "↓"
        table.add_row(
            escape(seeded),
            f"{score.value:.3f}",
            f"{score.low:.3f}–{score.high:.3f}",
            f"{score.chance:.3f}",
            f"{score.metric} {arrow}",
            seconds,
            result.note or result.source,
        )
    return table


def summary(result: Result) -> str:
    """A result in a few words."""
    score = result.headline
    return f"{score.metric} {score.value:.3f}" if score is not None else f"failed: {result.reason}"


def clock(seconds: float) -> str:
    """Seconds as people say them.

    Example:
        >>> clock(8), clock(200), clock(4000)
        ('8 s', '3 min 20 s', '1 h 6 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
