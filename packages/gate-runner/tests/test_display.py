"""What is shown: an estimate that learns, names that are not markup, a table that fits."""

from __future__ import annotations

import io

from rich.console import Console

from gate_runner.runs.display import BarDisplay, Estimate, PlainDisplay, results_table
from gate_runner.runs.observers import Planned
from gate_runner.runs.results import Result, Score

GOOD = Result(
    "imagenet1k", "micro/imagenet1k", "few-shot", "micro", 0, "ok", note="synthetic stand-in",
    scores=(Score("accuracy", "higher", 0.61234, 0.6, 0.62, 0.2),), seconds={"total": 12.0},
)  # fmt: skip
BAD = Result(
    "digits", "digits", "image-classification", "built-in", 0, "failed", "shape [2] is wrong", seconds={"total": 1}
)


def test_the_estimate_learns_from_what_is_over() -> None:
    estimate = Estimate([Planned("a", 0, 10, False), Planned("b", 0, 10, False), Planned("c", 0, 40, True)])
    assert estimate.remaining() == 20
    estimate.finish("a", 0, 30)
    assert estimate.remaining() == 30
    assert estimate.remaining({("b", 0): 0.5}) == 15


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
    assert "about 20 s left" in shown
    assert "0.612" in shown


def test_the_table_fits_a_plain_terminal() -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(results_table([GOOD, BAD]))
    lines = out.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "0.600–0.620" in lines[1]
    assert lines[1].endswith("synthetic stand-in")
