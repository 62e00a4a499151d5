"""What a run shows: bars with an estimate on a terminal, plain lines in a pipe, and a table at the end.

One file of more than 400 lines: the displays and the time left that they say, which nobody else asks for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from gate_runner.errors import printable
from gate_runner.runs.observers import Observer, Planned
from gate_runner.runs.results import Result, baseline_note, untrained

_QUIET = 30.0
"""Seconds, at most, without a word in a pipe while a part is under way."""
_FETCHED = ("hf:", "open_clip:", "timm:")
"""Forms of specs whose weights may come over the network."""


_FITTED = 0.0008
"""Seconds that solved heads take for each picture, about, before the first is solved and known; on two cores that
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
    fitted: float = _FITTED


class Pace:
    """Seconds that are left of a run.

    A part that encodes is timed by its own images a second and how many there are in all; one that trains by its own
    steps; a part that has not begun by a plan's measurement, by the same benchmark with another seed, or by those of
    its kind (solved heads, or trained ones) that are over or under way, as their costs relate. Where a phase to come
    has no known share, there is none until it is under way.

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
        >>> now = 2.0
        >>> pace.progress(("digits", 0), "encode train", 100, 500)
        >>> now = 5.0
        >>> pace.progress(("digits", 0), "encode train", 250, 500)
        >>> pace.left()
        15.8
    """

    def __init__(
        self, parts: Sequence[Planned] = (), workers: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.parts = {(part.name, part.seed): part for part in parts if not part.done}
        self.workers, self.clock = workers, clock
        self.under_way: dict[Key, _UnderWay] = {}
        self.again: dict[str, float] = {}
        self.paces: dict[bool, list[tuple[float, float]]] = {}

    def start(self, key: Key) -> None:
        """A part begins, perhaps again."""
        self.under_way[key] = _UnderWay(self.clock(), fitted=2 * _FITTED if "readout=" in key[0] else _FITTED)

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
            seen = part.encoded.get(phase, before.first)
            begun = now if part.encoded_at is None else part.encoded_at
            counts = seen or part.watched or now - begun > _WARM  # in a short first batch the encoder warms up
            new = max(0, done - seen) if counts else 0
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
        planned, part = self.parts.pop(key, None), self.under_way.pop(key, None)
        self.again[key[0]] = max(0.0, seconds - encoding)
        if planned is not None and planned.seconds is not None and _is_fresh(part):
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
            planned, part = self.parts.get(key), self.under_way[key]
            if seconds is not None and planned is not None and planned.seconds is not None and _is_fresh(part):
                paces.setdefault(planned.steps, []).append((now - part.since + seconds, planned.seconds))
        for key in dict.fromkeys((*self.under_way, *self.parts)):
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
        """Seconds that a part takes whose own pace nobody knows yet; None where nothing tells them."""
        planned = self.parts.get(key)
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
        """Seconds until a part under way is over; None where nobody knows."""
        part, planned = self.under_way[key], self.parts.get(key)
        now, phase = self.clock(), part.phase
        if phase is not None and _counts_steps(phase):
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
        return sum(part.fits) / len(part.fits) * (part.heads - solved) if part.fits else part.fitted * part.images

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


def _counts_steps(phase: _Phase) -> bool:
    """Whether a phase tells its own end: steps of a training, or read-outs that are judged."""
    trains = phase.name.startswith("train") and phase.name != "train head" and phase.total > _FEW_STEPS
    return trains or phase.name == "choose read-out"


def _is_fresh(part: _UnderWay | None) -> bool:
    """Whether a part's time tells of others: one that takes its features from the cache is over too soon."""
    return part is None or sum(part.encoded.values()) - part.watched <= _CACHED * part.images


def _encodes(phase: str) -> bool:
    """Whether a phase is pictures of a split through the encoder, of whatever kind of features."""
    return phase.startswith("encode ") and not phase.endswith(("texts", "captions"))


class Terminal(Console):
    """A console whose texts are `printable`."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of what is shown."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text, "\n\t"))


class PlainDisplay(Observer):
    """A line when a benchmark starts, one every half minute, and one when it is over: for pipes and log files.

    Args:
        console: where lines go; standard output by default.
        workers: parts that run at the same time, for the estimate.
    """

    def __init__(self, console: Console | None = None, workers: int = 1) -> None:
        self.console = console or Terminal(highlight=False, soft_wrap=True)
        self.workers = workers
        self.pace = Pace()
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

    def planned(self, parts: Sequence[Planned]) -> None:
        """Say how much is there already and how long the rest may take."""
        self.pace = Pace(parts, self.workers)
        self.expected = {(part.name, part.seed): part.seconds for part in parts if part.measured and part.seconds}
        self.count, self.over = len(parts), sum(part.done for part in parts)
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
        part = self.pace.parts.get(key)
        if part is not None and part.seconds is not None and part.seconds < 1.0 and not again:
            return  # one of a sweep's many: its end is shown in a moment
        self._line(f"[{self.over + len(self.begun)}/{self.count}] {name} seed {seed} ...{again}")

    def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
        """Say every half minute how far a part is."""
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
        self.pace.finish(
            (result.name, result.seed), seconds, sum(result.seconds.get(phase, 0.0) for phase in ("data", "encode"))
        )
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

    def planned(self, parts: Sequence[Planned]) -> None:
        """Start the bars."""
        super().planned(parts)
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

    Where the untrained encoder's score is known for the same data, it stands beside chance.
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
    return Group(table, *(Text(reason, style="red") for reason in reasons))


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
    minutes, odd = divmod(round(seconds), 60)
    if minutes < 1:
        return f"{odd} s"
    return f"{minutes} min {odd} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
