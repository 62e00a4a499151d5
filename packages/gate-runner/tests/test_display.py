"""What is shown: an estimate that learns, names that are not markup, a table that fits."""

from __future__ import annotations

import io

import pytest
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


def test_a_training_of_the_encoder_that_no_plan_measured_has_no_time_until_it_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    now = 100.0
    monkeypatch.setattr("gate_runner.runs.display.time.monotonic", lambda: now)
    out = io.StringIO()
    display = BarDisplay(Console(file=out, width=120, force_terminal=True, no_color=True, highlight=False))
    display.planned([Planned("micro/imagenet1k", 0, 20.0, False, trained=True)])
    assert "1 to run, time unknown (gate-runner plan measures it)" in out.getvalue()
    display.started("micro/imagenet1k", 0)
    for phase, done, expected in (
        ("encode train", 100, 0.04), ("encode train-projected", 5, 0.04), ("train head", 0, 0.05),
        ("train head", 100, 0.13), ("train", 0, 0.13), ("train", 50, 0.53),
    ):  # fmt: skip
        now += 20.0
        display.progress("micro/imagenet1k", 0, phase, done, 100)
        assert display.shares["micro/imagenet1k", 0] == pytest.approx(expected), phase
    assert display._said() == "about 1 min 46 s left"  # .47 of .53 of 120 s
    display.finished(GOOD)
    display.close()
    assert Estimate([Planned("a", 0, 10.0, False, measured=True, trained=True)]).known


def test_steps_of_before_an_interruption_are_no_sign_of_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("gate_runner.runs.display.time.monotonic", lambda: now)
    display = BarDisplay(Console(file=io.StringIO(), width=120, force_terminal=True))
    display.planned([Planned("micro/imagenet1k", 0, 20.0, False, trained=True)])
    display.started("micro/imagenet1k", 0)
    for done in (50, 60):  # of .8 of the whole, behind .13 that were there, too
        now += 8.0
        display.progress("micro/imagenet1k", 0, "train", done, 100)
    assert display.shares["micro/imagenet1k", 0] == pytest.approx(0.61)
    assert display._said() == "about 30 s left"  # .39 of .21 of 16 s, and not of .61
    display.close()


def test_the_table_fits_a_plain_terminal() -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(results_table([GOOD, BAD]))
    lines = out.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "0.600–0.620" in lines[1]
    assert lines[1].endswith("synthetic stand-in")
