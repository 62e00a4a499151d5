"""What a run shows: bars with an estimate on a terminal, plain lines in a pipe, and a table at the end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from gate_runner.errors import printable
from gate_runner.runs.eta import Eta, Key
from gate_runner.runs.observers import Observer, Planned
from gate_runner.runs.results import Result, baseline_note, untrained

_QUIET = 30.0
"""Seconds, at most, without a word in a pipe while a unit is under way."""
_NOTE = 24
"""Letters of a note that stands in a table."""
_FETCHED = ("hf:", "open_clip:", "timm:")
"""Forms of specs whose weights may come over the network."""


class Terminal(Console):
    """A console whose texts are `printable`."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of what is shown."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text, "\n\t"))


class PlainDisplay(Observer):
    """A line when a benchmark starts, one every half minute, and one when it is over: for pipes and log files."""

    def __init__(self, console: Console | None = None, workers: int = 1) -> None:
        self.console = console or Terminal(highlight=False, soft_wrap=True)
        self.workers = workers
        self.pace = Eta()
        self.expected: dict[Key, float] = {}
        self.count = self.over = 0
        self.begun: set[Key] = set()
        self.output: Path | None = None
        self.spoken = self.loading = time.monotonic()

    def opened(self, encoder: str, output: Path) -> None:
        """Name the encoder, which is about to be loaded, and the folder."""
        self.output, self.loading = output, time.monotonic()
        named = encoder.startswith(_FETCHED) and encoder.rpartition("/")[2].partition(":")[0] != "random"
        fetched = " (its weights are fetched first where they are not here)" if named else ""
        self._line(f"loading encoder {encoder}{fetched}, results in {output}")

    def planned(self, units: Sequence[Planned]) -> None:
        """Say how much is there already and how long the rest may take."""
        self.pace = Eta(units, self.workers)
        self.expected = {(unit.name, unit.seed): unit.seconds for unit in units if unit.measured and unit.seconds}
        self.count, self.over = len(units), sum(unit.done for unit in units)
        existing = f", {self.over} already there" if self.over else ""
        loaded = f"loaded in {clock(time.monotonic() - self.loading)}; "
        remaining = self._left() or "time unknown (gate-runner plan measures it)"
        self._line(f"{loaded}{self.count} to run{existing}, {remaining}")

    def started(self, name: str, seed: int) -> None:
        """Note the start."""
        key = name, seed
        again = " (again)" if key in self.begun else ""
        self.begun.add(key)
        self.pace.start(key)
        unit = self.pace.units.get(key)
        if unit is not None and unit.seconds is not None and unit.seconds < 1.0 and not again:
            return  # one of a sweep's many: its end is shown in a moment
        self._line(f"[{self.over + len(self.begun)}/{self.count}] {name} seed {seed} ...{again}")

    def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
        """Say every half minute how far a unit is."""
        self.pace.progress((name, seed), phase, done, total)
        if time.monotonic() - self.spoken > _QUIET and phase != "images":
            remaining, own = self._left(), self.pace.left_of((name, seed))
            if not remaining and own is not None:
                remaining = f"about {clock(own)} of it"
            self._line(
                f"    {name} seed {seed}: {phase} {done:,} of {total:,}{f', {remaining} left' if remaining else ''}"
            )

    def postponed(self, name: str, seed: int, owner: str) -> None:
        """Say who computes it."""
        self.pace.stop((name, seed))
        self._line(f"{name} seed {seed} is being computed by {owner}: waiting for it after the others")

    def finished(self, result: Result) -> None:
        """Print the score, and what is left."""
        seconds = result.seconds.get("total", 0.0)
        encoding = sum(result.seconds.get(phase, 0.0) for phase in ("data", "encode"))
        self.pace.finish((result.name, result.seed), seconds, encoding)
        self.over += 1
        self.begun.discard((result.name, result.seed))
        remaining = self._left() if self.over < self.count else ""
        self._line(
            f"[{self.over}/{self.count}] {result.name} seed {result.seed}: {summary(result)}, {seconds:.1f} s"
            f"{f', {remaining} left' if remaining else ''}"
        )

    def closed(self, results: Sequence[Result]) -> None:
        """Print all rows."""
        single = [result for result in results if result.task != "elevater"]  # a sweep's averages say more than rows
        if single:
            self.console.print(results_table(single, self.expected), soft_wrap=False)
        if sentence := baseline_note(single):
            self._line(sentence)

    def interrupted(self) -> None:
        """Say what an interruption leaves, and how to go on."""
        self.close()
        if self.count:
            results = f"{self.over} of {self.count} results are in {self.output}"
            self._line(f"interrupted: {results}, what was encoded is in the feature cache; the same command goes on")
        else:
            self._line("interrupted before anything was computed")

    def close(self) -> None:
        """Nothing to take away."""

    def _left(self) -> str:
        """How long it takes in words; nothing where nobody knows."""
        seconds = self.pace.left()
        return "" if seconds is None else f"about {clock(seconds)}"

    def _line(self, text: str) -> None:
        self.spoken = time.monotonic()
        self.console.print(escape(text))


class BarDisplay(PlainDisplay):
    """The same with a bar for each benchmark under way and one for all: for terminals."""

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
        self.total: TaskID | None = None
        self.running: dict[Key, TaskID] = {}
        self.shown = time.monotonic()

    def planned(self, units: Sequence[Planned]) -> None:
        """Start the bars."""
        super().planned(units)
        self.total = self.bars.add_task("all", total=1.0, left="")
        self.bars.start()
        self._show()

    def started(self, name: str, seed: int) -> None:
        """Show a bar for it."""
        self._stop((name, seed))
        self.pace.start((name, seed))
        self.running[name, seed] = self.bars.add_task(escape(name), total=1.0, left="")

    def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
        """Move the bars, at most ten times a second."""
        self.pace.progress((name, seed), phase, done, total)
        now = time.monotonic()
        if phase == "images" or (now - self.shown < 0.1 and done < total):
            return
        self.shown = now
        if (name, seed) in self.running:
            share = self.pace.share_of((name, seed))
            self.bars.update(self.running[name, seed], completed=share, left=f"{phase} {done:,}/{total:,}")
        self._show()

    def postponed(self, name: str, seed: int, owner: str) -> None:
        """Take its bar away."""
        self._stop((name, seed))
        super().postponed(name, seed, owner)

    def finished(self, result: Result) -> None:
        """Print the score above the bars."""
        self._stop((result.name, result.seed))
        super().finished(result)
        self._show()

    def closed(self, results: Sequence[Result]) -> None:
        """Take the bars away and print all rows."""
        self.close()
        super().closed(results)

    def close(self) -> None:
        """Take the bars away."""
        self.bars.stop()

    def _stop(self, key: Key) -> None:
        if key in self.running:
            self.bars.remove_task(self.running.pop(key))

    def _show(self) -> None:
        if self.total is not None:
            share = sum(self.pace.share_of(key) for key in self.running if key in self.pace.under_way)
            remaining = self._left()
            done = (self.over + share) / max(self.count, 1)
            self.bars.update(self.total, completed=done, left=f"{remaining} left" if remaining else "")


@contextmanager
def watching(console: Console, workers: int = 1) -> Iterator[PlainDisplay]:
    """Bars on a terminal and lines elsewhere; an interruption says what is there and how to go on."""
    display = BarDisplay(console, workers) if console.is_terminal else PlainDisplay(console, workers)
    try:
        yield display
    except KeyboardInterrupt:
        display.interrupted()
        raise
    finally:
        display.close()


def results_table(results: Sequence[Result], expected: Mapping[Key, float] | None = None) -> Group:
    """Score, metric, chance, interval, seconds and source of every result, and below it why what failed did.

    A note of some words stands in the place of the source, a longer one below the table, once.

    A single result has a row for each of its metrics. Where the untrained encoder's score is known for the same data,
    it stands beside chance.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 1), collapse_padding=True, header_style="bold")
    table.add_column("benchmark", overflow="fold")  # of words for a read-out it may be long
    baseline = {id(result): value for result in results if (value := untrained(result)) is not None}
    for column in ("score", "95 % CI", "chance", *(["untrained"] if baseline else [])):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("metric", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    if expected:
        table.add_column("plan", justify="right", no_wrap=True)
    table.add_column("source", overflow="fold", min_width=len("source"))
    reasons: list[str] = []
    notes = dict[str, None]()
    for result in results:
        seeded = result.name if len({row.seed for row in results}) == 1 else f"{result.name} seed {result.seed}"
        seconds = f"{result.seconds.get('total', 0.0):.0f}"
        score = result.headline
        times = [seconds]
        if expected:
            planned = expected.get((result.name, result.seed))
            times.append("" if planned is None else f"{planned:.0f}")
        if score is None:
            table.add_row(escape(seeded), result.status, *[""] * (4 if baseline else 3), *times, result.source)
            reasons.append(f"{seeded} {result.status}: {result.reason}")
            continue
        source = result.note or result.source
        if len(source) > _NOTE:
            source = result.source
            notes[f"{result.name}: {result.note}"] = None
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
        for more in result.scores[1:] if len(results) == 1 else ():
            table.add_row(
                "",
                f"{more.value:.3f}",
                f"{more.low:.3f}–{more.high:.3f}",
                f"{more.chance:.3f}",
                *([""] if baseline else []),
                f"{more.metric} {'↑' if more.direction == 'higher' else '↓'}",
            )
    return Group(table, *map(Text, notes), *(Text(reason, style="red") for reason in reasons))


def summary(result: Result) -> str:
    """A result in a few words."""
    score = result.headline
    return f"{score.metric} {score.value:.3f}" if score is not None else f"{result.status}: {result.reason}"


def clock(seconds: float) -> str:
    """Seconds as people say them."""
    minutes, odd = divmod(round(seconds), 60)
    if minutes < 1:
        return f"{odd} s"
    return f"{minutes} min {odd} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
