"""What a run shows: bars with an estimate on a terminal, plain lines in a pipe, and a table at the end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from gate_runner.runs.observers import Observer, Planned
from gate_runner.runs.results import Result
from gate_runner.runs.untrained import said_of, untrained

_PHASE_SHARES = {"data": 0.15, "encode train": 0.3, "encode validation": 0.05, "encode test": 0.15, "train": 0.33}
"""Shares of a benchmark's time, in order; what is missing is the test."""
_TRAINED_SHARES = {"data": 0.02, "encode train": 0.02, "encode validation": 0.01, "train head": 0.08, "train": 0.8}
"""The same where the encoder is trained; the head is trained before it, or starts otherwise."""
_ENOUGH = 0.05
"""Share of the parts under way, done while one watched, that tells how long the rest takes if nothing else does."""


class Estimate:
    """Seconds that are left: planned costs, corrected by how long what is over has really taken.

    Attributes:
        known: whether there is one: trainings of encoders that no plan measured are told by the first that is over.
    """

    def __init__(self, parts: Sequence[Planned]) -> None:
        self.left = {(one.name, one.seed): one.seconds for one in parts if not one.done}
        self.planned = self.taken = 0.0
        self.known = not any(one.trained and not one.measured for one in parts if not one.done)

    def finish(self, name: str, seed: int, seconds: float) -> None:
        """Learn from a benchmark that is over."""
        self.planned += self.left.pop((name, seed))
        self.taken += seconds
        self.known = True

    def remaining(self, shares: Mapping[tuple[str, int], float] | None = None) -> float:
        """Seconds of computing left.

        Args:
            shares: how much of the parts under way is done, 0 to 1.

        Returns:
            The sum over parts, as if one ran after another.

        Example:
            >>> estimate = Estimate([Planned("a", 0, 10.0, False), Planned("b", 0, 20.0, False)])
            >>> estimate.finish("a", 0, 5.0)
            >>> estimate.remaining(), estimate.remaining({("b", 0): 0.5})
            (10.0, 5.0)
        """
        pace = self.taken / self.planned if self.planned else 1.0
        gone = {} if shares is None else shares
        return pace * sum(cost * (1 - gone.get(key, 0.0)) for key, cost in self.left.items())


class PlainDisplay(Observer):
    """One line when a benchmark starts and one when it is over: for pipes and log files.

    Args:
        console: where lines go; standard output by default.
        workers: parts that run at the same time, for the estimate.
    """

    def __init__(self, console: Console | None = None, workers: int = 1) -> None:
        self.console = console or Console(highlight=False, soft_wrap=True)
        self.workers = workers
        self.estimate = Estimate([])
        self.expected: dict[tuple[str, int], float] = {}
        self.count = self.over = 0
        self.begun: set[tuple[str, int]] = set()

    def opened(self, encoder: str, output: Path) -> None:
        """Name the encoder and the folder."""
        self._line(f"encoder {encoder}, results in {output}")

    def planned(self, parts: Sequence[Planned]) -> None:
        """Say how much is there already and how long the rest may take."""
        self.estimate = Estimate(parts)
        self.expected = {(part.name, part.seed): part.seconds for part in parts if part.measured}
        self.count, self.over = len(parts), sum(part.done for part in parts)
        kept = f", {self.over} already there" if self.over else ""
        self._line(f"{self.count} to run{kept}, {self._left() or 'time unknown (gate-runner plan measures it)'}")

    def started(self, name: str, seed: int) -> None:
        """Note the start."""
        again = " (again)" if (name, seed) in self.begun else ""
        self.begun.add((name, seed))
        if self.estimate.left.get((name, seed), 1.0) < 1.0 and not again:
            return  # one of a sweep's many: its end is said in a moment
        self._line(f"[{self._place()}/{self.count}] {name} seed {seed} ...{again}")

    def postponed(self, name: str, seed: int, owner: str) -> None:
        """Say who computes it."""
        self._line(f"{name} seed {seed} is being computed by {owner}: waiting for it after the others")

    def finished(self, result: Result) -> None:
        """Print the score, and what is left."""
        seconds = result.seconds.get("total", 0.0)
        self.estimate.finish(result.name, result.seed, seconds)
        self.over += 1
        self.begun.discard((result.name, result.seed))
        left = f", {self._left()} left" if self.over < self.count else ""
        self._line(
            f"[{self.over}/{self.count}] {result.name} seed {result.seed}: {summary(result)}, {seconds:.1f} s{left}"
        )

    def closed(self, results: Sequence[Result]) -> None:
        """Print all rows."""
        single = [result for result in results if result.task != "elevater"]  # a sweep's averages say more than rows
        if single:
            self.console.print(results_table(single, self.expected), soft_wrap=False)
        if said := said_of(single):
            self._line(said)

    def close(self) -> None:
        """Nothing to take away."""

    def _place(self) -> int:
        return self.over + len(self.begun)

    def _left(self, shares: Mapping[tuple[str, int], float] | None = None) -> str:
        """How long it takes in words; nothing where nobody knows."""
        return f"about {clock(self.estimate.remaining(shares) / self.workers)}" if self.estimate.known else ""

    def _line(self, text: str) -> None:
        self.console.print(escape(text))


class BarDisplay(PlainDisplay):
    """The same with a bar for each benchmark under way and one for the whole: for terminals."""

    def __init__(self, console: Console, workers: int = 1) -> None:
        super().__init__(console, workers)
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
        )
        self.whole: TaskID | None = None
        self.running: dict[tuple[str, int], TaskID] = {}
        self.shares: dict[tuple[str, int], float] = {}
        self.phases: dict[tuple[str, int], str] = {}
        self.before: dict[tuple[str, int], float] = {}
        self.trained: set[tuple[str, int]] = set()
        self.opened_at = self.shown = time.monotonic()

    def planned(self, parts: Sequence[Planned]) -> None:
        """Start the bars."""
        super().planned(parts)
        self.trained = {(one.name, one.seed) for one in parts if one.trained}
        self.opened_at = time.monotonic()
        self.whole = self.bars.add_task("all", total=1.0, left=self._said())
        self.bars.start()

    def started(self, name: str, seed: int) -> None:
        """Show a bar for it."""
        self._stop(name, seed)
        self.shares[name, seed] = 0.0
        self.running[name, seed] = self.bars.add_task(escape(name), total=1.0, left="")

    def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
        """Move the bars, at most ten times a second."""
        now = time.monotonic()
        if now - self.shown < 0.1 and done < total:
            return
        self.shown = now
        key = (name, seed)
        trained = key in self.trained
        share = _share(phase, done / max(total, 1), trained=trained)
        if phase.startswith("train") and self.phases.get(key) != phase:
            self.phases[key] = phase  # where its first word finds a training, an interrupted one had been before
            self.before[key] = self.before.get(key, 0.0) + share - _share(phase, 0.0, trained=trained)
        self.shares[key] = max(self.shares.get(key, 0.0), share)
        if key in self.running:
            self.bars.update(self.running[key], completed=self.shares[key], left=phase)
        self._show()

    def postponed(self, name: str, seed: int, owner: str) -> None:
        """Take its bar away."""
        self._stop(name, seed)
        super().postponed(name, seed, owner)

    def finished(self, result: Result) -> None:
        """Print the score above the bars."""
        self._stop(result.name, result.seed)
        super().finished(result)
        self._show()

    def closed(self, results: Sequence[Result]) -> None:
        """Take the bars away and print all rows."""
        self.close()
        super().closed(results)

    def close(self) -> None:
        """Take the bars away."""
        self.bars.stop()

    def _stop(self, name: str, seed: int) -> None:
        for kept in (self.shares, self.phases, self.before):
            kept.pop((name, seed), None)
        if (name, seed) in self.running:
            self.bars.remove_task(self.running.pop((name, seed)))

    def _show(self) -> None:
        if self.whole is not None:
            done = (self.over + sum(self.shares.values())) / max(self.count, 1)
            self.bars.update(self.whole, completed=done, left=self._said())

    def _said(self) -> str:
        left, there = self._left(self.shares), sum(self.shares.values())
        done = there - sum(self.before.values())
        if not left and done > _ENOUGH:  # nothing was planned: as fast as until now
            left = f"about {clock((time.monotonic() - self.opened_at) * (self.count - self.over - there) / done)}"
        return f"{left} left" if left else ""


def _share(phase: str, done: float, *, trained: bool) -> float:
    """How much of a part is over; 0 in a phase that is none of those that take most of the time."""
    share = 0.0
    for known, width in (_TRAINED_SHARES if trained else _PHASE_SHARES).items():
        if known == phase:
            return min(share + width * done, 1.0)
        share += width
    return 0.0


def results_table(results: Sequence[Result], expected: Mapping[tuple[str, int], float] | None = None) -> Table:
    """Score, metric, chance, interval, seconds and source of every result; a failed one shows its reason.

    Where the untrained encoder's score is known for the same data, it stands beside chance.

    Args:
        results: in the order of the rows.
        expected: seconds by name and seed from a plan, shown beside those that it really took.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 1), collapse_padding=True, header_style="bold")
    table.add_column("benchmark", no_wrap=True)
    baseline = {id(result): value for result in results if (value := untrained(result)) is not None}
    for column in ("score", "95 % CI", "chance", *(["untrained"] if baseline else [])):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("metric", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    if expected:
        table.add_column("plan", justify="right", no_wrap=True)
    table.add_column("source", overflow="fold")
    for result in results:
        seeded = result.name if len({one.seed for one in results}) == 1 else f"{result.name} seed {result.seed}"
        seconds = f"{result.seconds.get('total', 0.0):.0f}"
        score = result.headline
        times = [seconds]
        if expected:
            known = (result.name, result.seed) in expected
            times.append(f"{expected[result.name, result.seed]:.0f}" if known else "")
        if score is None:
            empty = [""] * (4 if baseline else 3)
            table.add_row(escape(seeded), result.status, *empty, *times, escape(result.reason))
            continue
        source = result.note or result.source
        arrow = "↑" if score.direction == "higher" else "↓"
        table.add_row(
            escape(seeded),
            f"{score.value:.3f}",
            f"{score.low:.3f}–{score.high:.3f}",
            f"{score.chance:.3f}",
            *([f"{baseline[id(result)]:.3f}" if id(result) in baseline else "–"] if baseline else []),
            f"{score.metric} {arrow}",
            *times,
            source.replace("synthetic stand-in", "stand-in") if baseline else source,  # for want of room
        )
    return table


def summary(result: Result) -> str:
    """A result in a few words."""
    score = result.headline
    return f"{score.metric} {score.value:.3f}" if score is not None else f"{result.status}: {result.reason}"


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
