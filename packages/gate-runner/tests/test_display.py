"""What is shown: an estimate that learns, names that are not markup, a table that fits."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from gate_runner.runs.display import BarDisplay, Pace, PlainDisplay, results_table, watching
from gate_runner.runs.observers import Planned
from gate_runner.runs.results import Result, Score

GOOD = Result(
    "imagenet1k", "micro/imagenet1k", "few-shot", "micro", 0, "ok", note="synthetic stand-in",
    scores=(Score("accuracy", "higher", 0.61234, 0.6, 0.62, 0.2),), seconds={"total": 12.0},
)  # fmt: skip
BAD = Result(
    "digits", "digits", "image-classification", "built-in", 0, "failed", "shape [2] is wrong", seconds={"total": 1}
)


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def watched(*parts: Planned, workers: int = 1) -> tuple[Pace, Clock]:
    clock = Clock()
    return Pace(parts, workers, clock), clock


def test_a_phase_is_timed_by_its_own_rate() -> None:
    """20 of 600 a second, of which 200 were there before anybody looked."""
    pace, clock = watched(Planned("own", 0, None, False))
    assert pace.left_of(("own", 0)) is None
    pace.start(("own", 0))
    for done in (200, 240, 280):
        pace.progress(("own", 0), "encode train", done, 600)
        clock.now += 2.0
    assert pace.left_of(("own", 0)) == pytest.approx((600 - 280) / (80 / 6))
    assert pace.share_of(("own", 0)) == pytest.approx(280 / 600)
    pace.progress(("own", 0), "train", 500, 1000)
    assert pace.left_of(("own", 0)) is None  # another phase: nothing before it tells how long a step takes
    clock.now += 8.0
    pace.progress(("own", 0), "train", 600, 1000)
    assert pace.left_of(("own", 0)) == pytest.approx(400 * 8 / 100)
    assert pace.left() is None  # nobody knows what this costs
    pace.finish(("own", 0), 50.0)
    assert pace.left() == 0.0


def test_other_parts_cost_as_those_that_are_over() -> None:
    costs = (("a", 0, 10.0), ("b", 0, 40.0), ("c", 0, 5.0))
    pace, clock = watched(*(Planned(name, seed, cost, False) for name, seed, cost in costs), workers=2)
    pace.start(("a", 0))
    clock.now += 20.0
    assert pace.left() is None
    pace.finish(("a", 0), 20.0)
    assert pace.left() == pytest.approx(2 * (40.0 + 5.0) / 2)
    pace.start(("b", 0))
    clock.now += 30.0
    assert pace.left() == pytest.approx((80.0 - 30.0 + 10.0) / 2)
    pace.parts["d", 0] = Planned("d", 0, 5.0, False, trained=True)  # a training costs what nobody knows
    assert pace.left() is None


def test_a_plan_that_measured_is_believed() -> None:
    pace, clock = watched(Planned("a", 0, 10.0, False, measured=True), Planned("b", 0, 30.0, False, measured=True))
    assert pace.left() == 40.0
    pace.start(("a", 0))
    clock.now += 4.0
    assert pace.left() == 36.0


def test_brackets_in_a_reason_are_not_markup() -> None:
    out = io.StringIO()
    display = PlainDisplay(Console(file=out, width=120))
    display.planned([Planned("digits", 0, 1.0, False)])
    display.started("digits", 0)
    display.finished(BAD)
    display.closed([BAD])
    assert out.getvalue().count("shape [2] is wrong") == 2


def test_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")  # a dumb terminal gets no bars
    out = io.StringIO()
    display = BarDisplay(Console(file=out, width=120, force_terminal=True))
    display.planned([Planned("micro/imagenet1k", 0, 20.0, False)])
    display.started("micro/imagenet1k", 0)
    display.progress("micro/imagenet1k", 0, "encode train", 50, 100)
    display.progress("micro/imagenet1k", 0, "train", 100, 100)
    display.finished(GOOD)
    display.closed([GOOD])
    shown = out.getvalue()
    assert "time unknown" in shown
    assert "0.612" in shown


def test_a_training_of_minutes_speaks_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("gate_runner.runs.display.time.monotonic", clock)
    out = io.StringIO()
    display = PlainDisplay(Console(file=out, width=120))
    display.opened("timm:resnet18@160x96/random:1", Path("runs/x"))
    assert "fetched" not in out.getvalue()
    display.opened("hf:somebody/model", Path("runs/x"))
    clock.now += 7.0
    display.planned([Planned("maps", 0, 20.0, False, trained=True)])
    display.pace.clock = clock
    display.started("maps", 0)
    for step in range(0, 1000, 10):
        display.progress("maps", 0, "train", step, 1000)
        clock.now += 1.0
    shown = out.getvalue()
    assert "loading encoder hf:somebody/model (its weights are fetched first where they are not here)" in shown
    assert "loaded in 7 s; 1 to run, time unknown" in shown
    assert "    maps seed 0: train 310 of 1,000, about 1 min 9 s left of that" in shown
    assert shown.count("maps seed 0: train") == 3


def test_an_interruption_says_what_is_there() -> None:
    out = io.StringIO()

    def interrupted() -> None:
        with watching(Console(file=out, width=120, soft_wrap=True)) as display:
            display.opened("micro-clip", Path("runs/x"))
            display.planned([Planned("a", 0, 1.0, True), Planned("b", 0, 1.0, False)])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    sentence = (
        "interrupted: 1 of 2 results are in runs/x, what was encoded is in the feature cache; the same command goes on"
    )
    assert sentence in out.getvalue()


def test_the_table_fits_a_plain_terminal() -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(results_table([GOOD, BAD]))
    lines = out.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "0.600–0.620" in lines[1]
    assert lines[1].endswith("synthetic stand-in")


def test_a_long_name_is_folded_and_leaves_the_source_readable() -> None:
    out = io.StringIO()
    good = replace(GOOD, name="one-table@readout=last+block:3/mean/float16", note="", source="file")
    Console(file=out, width=80).print(results_table([good]))
    head, first = (line.split() for line in out.getvalue().splitlines()[:2])
    assert (head[-1], first[-1]) == ("source", "file")


def test_a_long_reason_stands_below_the_table_in_words() -> None:
    """In its last column it was folded letter by letter where names were long."""
    reason = "EncoderError: nowhere.pth has no weights of resnet18, whose first layer has 64 filters"
    name = "a-benchmark-of-somebody-with-a-long-name@readout=auto"
    bad = Result("own", name, "image-classification", "file", 0, "failed", reason, seconds={"total": 1})
    out = io.StringIO()
    Console(file=out, width=80).print(results_table([GOOD, bad]))
    assert reason in " ".join(out.getvalue().split())
    assert len(out.getvalue().splitlines()) <= 7
