"""A choice among encoders: the judge is the paired test, what fails is said, and the rounds save what they say."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import gate_runner.choosing.choice
import vision_features.encoders.loading
from gate_runner.choosing import costs as costs_module
from gate_runner.choosing.choice import MANY, Candidate, Choice, choose, encoders_in
from gate_runner.choosing.costs import Costs, LoadedEncoders, Speed, measured, speeds, twins
from gate_runner.cli import app
from gate_runner.errors import UsageError
from gate_runner.reports import report
from gate_runner.reports.choice import costs_of, scores_of
from gate_runner.runs.stored import read_runs
from gate_runner.settings import Settings
from paired_scores import score_outcomes, worse_than_another
from vision_features.encoders.loading import load_encoder
from vision_features.features import FeatureCache

from ._small_towers import with_small_towers

SPECS = ("micro-clip", "micro-clip/random", "micro-clip/random:0", "timm:resnet18/nowhere.pth")


@pytest.fixture(autouse=True)
def small_towers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "choice" not in request.fixturenames:  # whose features have widths to shorten
        with_small_towers(monkeypatch)


@pytest.fixture(scope="module")
def choice(tmp_path_factory: pytest.TempPathFactory) -> Choice:
    folder = tmp_path_factory.mktemp("choice")
    settings = Settings(limit=60, readout=("auto",))
    with pytest.MonkeyPatch.context() as patch:  # how fast images are read shows where they are encoded
        patch.setenv("GATE_RUNNER_CACHE", str(tmp_path_factory.mktemp("cache")))
        return choose("digits@knn", SPECS, folder, settings, first=40, price=3.6)


def test_the_best_comes_first_and_what_fails_is_said(choice: Choice) -> None:
    first, *others = choice.candidates
    assert first.verdict == "best"
    verdicts = [candidate.verdict for candidate in others]
    assert len(verdicts) == 3
    assert all(verdict in ("tied", "beaten") for verdict in verdicts[:2])
    assert verdicts == sorted(verdicts, key=("tied", "beaten", "failed").index)
    for candidate in choice.candidates[:3]:
        assert (candidate.p is None) is (candidate is first)
        assert candidate.verdict != "beaten" or (candidate.p or 0) <= 0.05
    scored = [candidate for candidate in choice.candidates if candidate.verdict in ("best", "tied")]
    assert all((candidate.value or 0) <= (first.value or 0) for candidate in scored)
    (failed,) = [candidate for candidate in choice.candidates if candidate.verdict == "failed"]
    assert failed.encoder == SPECS[3]
    assert "nowhere.pth" in failed.reason
    assert {candidate.encoder for candidate in choice.candidates} == set(SPECS)


def test_two_encoders_with_the_same_features_are_said(choice: Choice) -> None:
    """Seed 0 is what ``/random`` has: the same features, one difference of 0."""
    alike = [candidate for candidate in choice.candidates if candidate.encoder.startswith("micro-clip/random")]
    assert alike[0].value == alike[1].value
    assert [candidate.reason for candidate in alike] == ["", f"the same features as {alike[0].encoder}"]


def test_features_that_agree_are_twins_whatever_their_names() -> None:
    rows = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    features = {"a": rows, "b": rows[:, :6], "c": rows * (1 + 1e-6), "d": rows + 0.01, "e": rows[:, :6].clone()}
    assert twins(features) == {"c": "a", "e": "b"}


def test_costs_and_fewer_bytes_are_of_the_encoder(choice: Choice) -> None:
    first = choice.candidates[0]
    assert first.costs is not None
    assert first.costs.dollars == pytest.approx(3.6 / 3600 / first.costs.images_per_second * 1e6)
    sizes = {compressed.code: compressed.row_bytes for compressed in choice.compressed}
    assert sizes["float16"] == first.row_bytes / 2
    assert sizes["int8"] == first.row_bytes / 4
    assert sizes["binary"] == first.row_bytes / 32
    assert sizes["dims64"] == 4 * 64
    assert "pca64" not in sizes  # which needs as many training images
    assert first.costs.weight_bytes >= 4 * (first.costs.parameters or 0)
    assert first.row_bytes in (4 * 128, 4 * 192, 4 * 384)
    assert first.costs.read_per_second is not None
    assert first.costs.read_per_second > 0
    done, whole = choice.pictures
    assert done <= whole
    assert f"{done:,} images were encoded" in " ".join(choice.sentences)


def test_the_same_call_computes_nothing_again(choice: Choice, tmp_path: Path) -> None:
    folder = choice.runs[0].parent
    written = {path: path.stat().st_mtime_ns for path in folder.glob("*/results/*.json")}
    again = choose("digits@knn", SPECS, folder, Settings(limit=60, readout=("auto",)), first=40)
    assert [candidate.value for candidate in again.candidates] == [candidate.value for candidate in choice.candidates]
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*/results/*.json")} == written


def test_pictures_that_end_in_the_first_round_are_judged_at_the_whole_level(tmp_path: Path) -> None:
    pytest.importorskip("skimage")
    specs = [f"micro-clip/random:{seed}" for seed in range(MANY)]
    settings = Settings(readout=("last",))  # all 200 faces: rounds of 150 and 450 samples of a split would follow
    choice = choose("faces@knn", specs, tmp_path, settings, first=150)
    values = sorted(candidate.p for candidate in choice.candidates if candidate.p is not None)
    assert values[0] < values[-1]
    alpha = (values[0] + values[-1]) / 2  # a third of it, a round's share, is below the smallest
    assert alpha / 3 < values[0]
    again = choose("faces@knn", specs, tmp_path, settings, first=150, alpha=alpha)
    verdicts = {candidate.p: candidate.verdict for candidate in again.candidates[1:]}
    assert verdicts == {p: "beaten" if p <= alpha else "tied" for p in values}


def test_the_judge_counts_all_pairs_and_the_intervals_hold_for_all_encoders(tmp_path: Path) -> None:
    """The best is picked by the samples it is tested on: tests with the others alone call too many worse."""
    pytest.importorskip("skimage")
    specs = [f"micro-clip/random:{seed}" for seed in range(3)]
    choice = choose("faces@knn", specs, tmp_path, Settings(readout=("last",)))
    runs = read_runs(choice.runs)
    outcomes = [run.outcomes(run.results[0]) for run in runs]
    expected = worse_than_another("acc@1", [[right] for right in outcomes])
    by_encoder = dict(zip([run.encoder for run in runs], expected, strict=True))
    others = choice.candidates[1:]
    assert len(others) == 2
    assert [c.p for c in others] == [by_encoder[c.encoder] for c in others]
    best = choice.candidates[0]
    wide = score_outcomes("acc@1", outcomes[0], level=1 - 0.05 / 3)
    assert (best.low, best.high) == (wide.low, wide.high)
    assert "picking the best one is accounted for" in " ".join(choice.sentences)


def test_a_folder_that_holds_other_readouts_and_seeds_changes_nothing(tmp_path: Path) -> None:
    specs = ("micro-dense", "micro-dense/random")

    def chosen(output: str, *readout: str, seeds: tuple[int, ...] = (0,)) -> list[tuple[Any, ...]]:
        settings = Settings(limit=60, readout=readout, seeds=seeds)
        choice = choose("digits@knn", specs, tmp_path / output, settings)
        return [(row.encoder, row.value, row.low, row.high, row.readout) for row in choice.candidates]

    alone = chosen("alone", "last")
    chosen("shared", "block:1/mean", seeds=(0, 1))
    assert chosen("shared", "last") == alone


def test_an_encoder_is_efficient_where_each_faster_one_is_shown_to_be_worse() -> None:
    rows = [
        ("best", 0.90, 10.0),
        ("tied", 0.89, 20.0),  # faster than the best, which no test puts above it
        ("tied", 0.88, 21.0),  # within 10 % of it: as fast
        ("tied", 0.87, 12.0),
        ("beaten", 0.80, 19.0),
        ("beaten", 0.70, 80.0),
        ("beaten", 0.60, 60.0),  # below the one before in both
    ]
    listed = tuple(
        Candidate(f"{verdict}-{speed:.0f}", verdict, value, costs=Costs(speed, 1.0, 1, 4))
        for verdict, value, speed in rows
    )
    choice = Choice("x", "acc@1", "higher", listed, (), (1, 1))
    assert choice.pareto() == ("tied-20", "tied-21", "beaten-80")
    errors = tuple(replace(row, value=1 - (row.value or 0.0)) for row in listed)
    assert Choice("x", "mae", "lower", errors, (), (1, 1)).pareto() == ("tied-20", "tied-21", "beaten-80")


def test_the_command_prints_json_and_writes_a_page(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["choose", "digits", "--encoders", "micro-clip,micro-clip/random", "--limit", "60", "--task", "knn"]
    done = CliRunner().invoke(app, [*words, "--output", str(out), "--json"])
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout[done.stdout.index("{") :])
    assert record["benchmark"] == "digits@knn,readout=auto"
    assert record["sentences"][0].startswith(f"Take {record['candidates'][0]['encoder']}, read out at ")
    page = (out / "choice.html").read_text()
    assert "<h1>Which encoder for digits" in page
    assert page.index(record["sentences"][0]) < page.index('id="choice"')
    assert "images a second" in page
    assert "A look at the features" in page


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three classes of 20 noisy colours."""
    rng = np.random.default_rng(0)
    for name, colour in {"blue": (20, 40, 220), "green": (30, 200, 40), "red": (220, 30, 20)}.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(20):
            pixels = (np.array(colour) + rng.integers(-60, 60, (40, 32, 3))).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


def test_own_pictures_are_shown_each_encoder_loaded_once_and_nothing_encoded_for_the_page(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATE_RUNNER_CACHE", str(tmp_path / "cache"))
    loads: Counter[str] = Counter()
    caches: list[FeatureCache] = []
    plain_load, plain_of = vision_features.encoders.loading.load_encoder, FeatureCache.of

    def load(text: str, *, device: str = "cpu") -> Any:
        loads[text] += 1
        return plain_load(text, device=device)

    def kept(*given: Any, **options: Any) -> FeatureCache:
        caches.append(plain_of(*given, **options))
        return caches[-1]

    monkeypatch.setattr(vision_features.encoders.loading, "load_encoder", load)
    monkeypatch.setattr(FeatureCache, "of", kept)
    out = tmp_path / "out"
    words = ["choose", str(photos), "--encoders", "micro-dense,micro-dense/random", "--output", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert loads == {"micro-dense": 1, "micro-dense/random": 1}
    encoded = [cache.encoded.total() for cache in caches]
    assert sum(encoded) == 2 * 60  # each image once by each encoder, for rounds, fewer bytes and page together
    page = (out / "choice.html").read_text()
    assert "A look at the features" in page
    assert "No images:" not in page
    hardest = page[page.index('id="hardest"') :]
    assert hardest.count("data:image/jpeg;base64,") >= 4


def test_a_report_of_a_readout_shows_own_pictures_and_looks_on_the_device_of_runs(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATE_RUNNER_CACHE", str(tmp_path / "cache"))
    words = ["run", "--data", str(photos), "--encoder", "micro-clip", "--readout", "auto", "--output"]
    done = CliRunner().invoke(app, [*words, str(tmp_path / "run"), "--isolate", "none"])
    assert done.exit_code == 0, done.output
    seen: list[str] = []

    def load(text: str, *, device: str = "cpu") -> Any:
        seen.append(device)
        return load_encoder(text)

    monkeypatch.setattr(vision_features.encoders.loading, "load_encoder", load)
    monkeypatch.setattr(vision_features.encoders.loading, "device_for", lambda device: f"the device of {device}")
    page = report(tmp_path / "run", look=True, pictures=2, data_root=photos)
    assert seen == ["the device of auto"]
    assert "No images:" not in page
    assert "A map of" in page
    assert page.count("data:image/jpeg;base64,") >= 4


def test_an_error_of_any_kind_is_one_encoders_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = gate_runner.choosing.choice.execute

    def execute(request: Any, *others: Any) -> Any:
        if request.spec == "micro-clip/random:7":
            raise RuntimeError("CUDA error: device-side assert triggered\nand more lines")
        return plain(request, *others)

    monkeypatch.setattr(gate_runner.choosing.choice, "execute", execute)
    specs = ("micro-clip/random:7", "micro-clip", "micro-clip/random")
    choice = choose("digits@knn", specs, tmp_path, Settings(limit=40))
    assert {c.encoder for c in choice.candidates[:2]} == set(specs[1:])
    assert choice.candidates[2] == Candidate(
        specs[0], "failed", reason="RuntimeError: CUDA error: device-side assert triggered"
    )


def test_an_encoder_whose_speed_cannot_be_measured_stays_in_the_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(gate_runner.choosing.choice, "measured", fail)
    choice = choose("digits@knn", ("micro-clip", "micro-clip/random"), tmp_path, Settings(limit=40))
    assert [c.costs for c in choice.candidates] == [None, None]
    assert choice.candidates[0].reason == "costs not measured: OutOfMemoryError: CUDA out of memory"
    heads, rows = scores_of(choice)
    assert {len(row) for row in rows} == {len(heads)}
    assert len(rows) == 2
    assert costs_of(choice)[1] == []


def test_a_busy_machine_is_named_and_speed_is_of_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = load_encoder("micro-clip")
    for clock, processor, busy in (
        (10.0, 100.0, True),
        (100.0, 119.0, False),
        (100.0, 121.0, True),
        (9.0, None, False),
    ):
        both = [None if rate is None else Speed(rate, rate / 2, rate * 2) for rate in (clock, processor)]
        monkeypatch.setattr(costs_module, "speeds", lambda *_, both=both: both)
        costs = measured(encoder, 8, price=3.6).costs
        shown = processor if busy and processor else clock
        assert (costs.images_per_second, costs.busy, costs.clock_per_second) == (shown, busy, clock)
        assert (costs.slow, costs.fast) == (shown / 2, shown * 2)
        assert costs.dollars == pytest.approx(3.6 / 3600 / shown * 1e6)
    best = Candidate(
        "a", "best", 0.9, costs=Costs(100.0, 1.0, 1, 4, clock_per_second=10.0, slow=80.0, fast=125.0, busy=True)
    )
    heads, rows = costs_of(Choice("x", "acc@1", "higher", (best,), (), (1, 1)))
    assert rows[0][heads.index("images/s")] == "100.0 (80.0–125.0) *"
    sentences = " ".join(gate_runner.choosing.choice._sentences(Choice("x", "acc@1", "higher", (best,), (), (1, 1)), 1))
    assert "from CPU time; the clock gave down to 10% of them" in sentences
    quiet = replace(best, costs=Costs(100.0, 1.0, 1, 4, clock_per_second=100.0))
    assert "busy" not in " ".join(
        gate_runner.choosing.choice._sentences(Choice("x", "acc@1", "higher", (quiet,), (), (1, 1)), 1)
    )


def test_processor_time_is_not_that_of_waiting() -> None:
    """An encoder that sleeps, as one does whose machine works for others: the clock counts it, the processor not."""
    encoder = load_encoder("micro-clip")
    plain = encoder.image

    def slow(images: torch.Tensor) -> torch.Tensor:
        time.sleep(0.1)
        return plain(images)

    encoder.image = slow
    clock, processor = speeds(encoder, 1, seconds=0)
    assert clock.slow <= clock.median <= clock.fast <= 10
    assert processor is not None
    assert processor.median > 1.2 * clock.median


def test_encoders_stay_loaded_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: Counter[str] = Counter()

    def load(text: str, *, device: str = "cpu") -> Any:
        loads[text] += 1
        return load_encoder(text, device=device)

    monkeypatch.setattr(vision_features.encoders.loading, "load_encoder", load)
    specs = ("micro-clip", "micro-clip/random")
    roomy, tight = LoadedEncoders("cpu"), LoadedEncoders("cpu", room=1)
    for spec in (*specs, *specs):
        roomy.get(spec)
    assert loads == dict.fromkeys(specs, 1)
    for spec in (*specs, specs[1], specs[0]):
        tight.get(spec)
    assert loads == {"micro-clip": 3, "micro-clip/random": 2}


def test_what_cannot_be_chosen_from_is_one_line(tmp_path: Path) -> None:
    words = ["choose", str(tmp_path), "--encoders", "micro-clip,lite:0", "--price", "inf"]
    assert "--price above 0, not 0.05 and inf" in str(CliRunner().invoke(app, words).exception)
    (tmp_path / "t.csv").write_text("file,label\n")
    words = ["choose", str(tmp_path / "t.csv"), "--encoders", "micro-clip,lite:0"]
    refused = str(CliRunner().invoke(app, words).exception)
    assert f"expected the folder that holds it, or its benchmark.toml: gate-runner choose {tmp_path} " in refused
    with pytest.raises(UsageError, match="names 1 encoder; expected at least two"):
        encoders_in("micro-clip")
    listed = tmp_path / "specs.txt"
    listed.write_text("micro-clip  # ours\n\nlite:0\n")
    assert encoders_in(str(listed)) == ("micro-clip", "lite:0")
    assert encoders_in("timm:vit_tiny_patch16_224@224|384/random")[1] == "timm:vit_tiny_patch16_224@384/random"
    with pytest.raises(UsageError, match="reads each encoder at one"):
        choose("digits", ("a", "b"), tmp_path, Settings(readout=("auto", "last")))
    with pytest.raises(UsageError, match="no encoder could be scored"):
        choose("digits", ("timm:resnet18/a.pth", "timm:resnet18/b.pth"), tmp_path / "o", Settings(limit=40))


def test_what_is_wrong_with_the_images_is_no_encoders_fault(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(8):
            pixels = rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    (tmp_path / "photos" / "a" / "0.png").write_bytes(b"\x89PNG broken")
    words = ["choose", str(tmp_path / "photos"), "--encoders", "micro-clip,micro-clip/random"]
    refused = str(CliRunner().invoke(app, [*words, "--output", str(tmp_path / "chosen")]).exception)
    assert refused.startswith("no encoder could be scored: a/0.png cannot be read as an image")
    assert refused.count("a/0.png") == 1
