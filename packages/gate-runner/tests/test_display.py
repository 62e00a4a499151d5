"""What is shown: an estimate that learns, names that are not markup, a table that fits."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from gate_runner.runs.display import BarDisplay, PlainDisplay, results_table, watching
from gate_runner.runs.eta import Eta
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


def watched(*parts: Planned, workers: int = 1) -> tuple[Eta, Clock]:
    clock = Clock()
    return Eta(parts, workers, clock), clock


def test_each_pass_over_the_images_counts_and_its_head_is_timed() -> None:
    """A dual encoder's images go through it twice, and a head is solved after each pass."""
    pace, clock = watched(Planned("digits", 0, 20.0, False))
    pace.start(("digits", 0))
    pace.progress(("digits", 0), "images", 0, 1000)
    pace.progress(("digits", 0), "encode train", 0, 1)
    pace.progress(("digits", 0), "images", 0, 2000)
    clock.now += 3.0  # the encoder warms up
    for done in (100, 200, 400):
        pace.progress(("digits", 0), "encode train", done, 400)
        clock.now += 2.0
    assert pace.left() == pytest.approx(1600 * 4.0 / 300 + 0.0008 * 2000)
    for done in (100, 600):
        pace.progress(("digits", 0), "encode test", done, 600)
        clock.now += 5.0
    pace.progress(("digits", 0), "train", 1, 2)
    assert pace.left() == pytest.approx(1000 * 9.0 / 800 + 5.0)
    pace.units["digits", 1] = Planned("digits", 1, 20.0, False)  # takes its features from the cache
    assert pace.left() == pytest.approx(1000 * 9.0 / 800 + 3 * 5.0)
    del pace.units["digits", 1]
    for done in (100, 1000):
        pace.progress(("digits", 0), "encode train-backbone", done, 1000)
        clock.now += 1.0
    assert pace.left() == pytest.approx(4.0)  # of the second head, one second is over


def test_encoding_is_timed_by_its_own_rate_and_all_its_images() -> None:
    """20 images a second, 1,000 of them, of which 200 were there before anybody looked."""
    pace, clock = watched(Planned("own", 0, 20.0, False))
    assert pace.left() is None  # nobody knows what this costs
    pace.start(("own", 0))
    pace.progress(("own", 0), "images", 0, 1000)
    for done in (200, 240, 280):
        pace.progress(("own", 0), "encode train", done, 600)
        clock.now += 2.0
    assert pace.left() == pytest.approx((1000 - 280) / 20 + 0.0008 * 1000)
    pace.progress(("own", 0), "encode train", 600, 600)
    pace.progress(("own", 0), "encode test", 0, 400)
    clock.now += 10.0
    pace.progress(("own", 0), "encode test", 200, 400)
    assert pace.left() == pytest.approx(200 / ((80 + 320 + 200) / 16) + 0.8)
    pace.finish(("own", 0), 50.0)
    assert pace.left() == 0.0


def test_other_parts_cost_as_those_that_are_over_and_other_seeds_encode_nothing() -> None:
    costs = (("a", 0, 10.0), ("a", 1, 10.0), ("b", 0, 40.0), ("c", 0, 5.0))
    pace, clock = watched(*(Planned(name, seed, cost, False) for name, seed, cost in costs), workers=2)
    pace.start(("a", 0))
    clock.now += 20.0
    pace.finish(("a", 0), 20.0, encoding=15.0)
    assert pace.left() == pytest.approx((5.0 + 2 * 40.0 + 2 * 5.0) / 2)


def test_nobody_knows_what_a_part_of_unknown_cost_takes_until_it_is_under_way() -> None:
    """Of eight stand-ins, each said to take 20 s, a run that had two minutes left said ten."""
    pace, clock = watched(Planned("maps", 0, None, False), Planned("digits", 0, None, False))
    pace.start(("maps", 0))
    pace.progress(("maps", 0), "train", 0, 100)
    clock.now += 10.0
    pace.progress(("maps", 0), "train", 20, 100)
    assert pace.left() is None
    assert pace.left_of(("maps", 0)) == pytest.approx(40.0)
    pace.finish(("maps", 0), 50.0)
    assert pace.left() is None


def test_others_are_known_by_their_costs_as_soon_as_one_of_their_kind_is_under_way() -> None:
    """A head that is trained step by step tells nothing of those that are solved."""
    pace, clock = watched(
        Planned("digits", 0, 10.0, False), Planned("faces", 0, 1.0, False), Planned("maps", 0, 60.0, False, steps=True)
    )
    pace.start(("digits", 0))
    pace.progress(("digits", 0), "images", 0, 1000)
    for done in (0, 100, 200, 300):  # the first hundred are slow
        pace.progress(("digits", 0), "encode train", done, 1000)
        clock.now += 5.0 if done == 0 else 2.0
    assert pace.left() is None  # of the third
    pace.finish(("maps", 0), 90.0)
    assert pace.left() == pytest.approx(14.8 + 1.0 * (11.0 + 14.8) / 10.0)
    pace.finish(("digits", 0), 40.0)
    pace.start(("faces", 0))
    clock.now += 1.0
    assert pace.left() == pytest.approx(3.0)  # what is under way and was not watched long enough, likewise


def test_a_slow_first_batch_counts_and_read_outs_are_timed_as_they_are_judged() -> None:
    pace, clock = watched(Planned("digits@readout=auto", 0, None, False))
    key = ("digits@readout=auto", 0)
    pace.start(key)
    pace.progress(key, "images", 0, 1000)
    pace.progress(key, "encode train", 0, 1)
    clock.now += 10.0
    pace.progress(key, "encode train", 100, 1000)
    assert pace.left() == pytest.approx(900 * 0.1 + 2 * 0.0008 * 1000)
    pace.progress(key, "encode train", 1000, 1000)
    for judged in (1, 2, 3):
        pace.progress(key, "choose read-out", judged, 8)
        clock.now += 2.0
    assert pace.left() == pytest.approx(5 * 6.0 / 2)


def test_what_comes_from_the_cache_tells_nothing_of_others() -> None:
    pace, _ = watched(Planned("digits", 0, 10.0, False), Planned("faces", 0, 10.0, False))
    pace.start(("digits", 0))
    pace.progress(("digits", 0), "images", 0, 1000)
    pace.progress(("digits", 0), "encode train", 1000, 1000)
    pace.finish(("digits", 0), 1.0)
    assert pace.left() is None


def test_a_plan_that_measured_is_believed() -> None:
    pace, clock = watched(Planned("a", 0, 10.0, False, measured=True), Planned("b", 0, 30.0, False, measured=True))
    assert pace.left() == 40.0
    pace.start(("a", 0))
    clock.now += 4.0
    assert pace.left() == 36.0


def test_a_training_is_known_by_its_steps_alone() -> None:
    """Nothing before it tells how long a step takes, and steps of before an interruption are no sign of speed."""
    pace, clock = watched(Planned("maps", 0, 20.0, False, trained=True))
    pace.start(("maps", 0))
    pace.progress(("maps", 0), "images", 0, 100)
    for done in (0, 50, 100):
        pace.progress(("maps", 0), "encode train", done, 100)
        clock.now += 5.0
    pace.progress(("maps", 0), "train head", 50, 100)
    assert pace.left() is None
    pace.progress(("maps", 0), "train", 500, 1000)
    assert pace.left() is None
    clock.now += 8.0
    pace.progress(("maps", 0), "train", 600, 1000)
    assert pace.left() == pytest.approx(400 * 8 / 100)


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
    assert "    maps seed 0: train 310 of 1,000, about 1 min 9 s left" in shown
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


def test_a_long_note_stands_below_the_table_once() -> None:
    """In its last column it took thirteen lines of two words each."""
    note = "the first caption of each image, of 1 to 2; 93 captions stand with several images"
    own = [replace(GOOD, name="photos", source="file", note=note, seed=seed) for seed in (0, 1)]
    out = io.StringIO()
    Console(file=out, width=100).print(results_table([GOOD, *own]))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert [line.split()[-1] for line in lines[1:4]] == ["stand-in", "file", "file"]
    assert lines[4:] == [f"photos: {note}"]
