"""A choice among encoders: the judge is the paired test, what fails is said, and the rounds save what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from gate_runner.choosing import MANY, Candidate, Choice, Costs, choose, encoders_in, twins
from gate_runner.cli import app
from gate_runner.errors import UsageError
from gate_runner.runs.stored import read_runs
from gate_runner.settings import Settings
from vision_adapters import score_outcomes, worse_than_another

SPECS = ("micro-clip", "micro-clip/random", "micro-clip/random:0", "timm:resnet18/nowhere.pth")


@pytest.fixture(scope="module")
def choice(tmp_path_factory: pytest.TempPathFactory) -> Choice:
    folder = tmp_path_factory.mktemp("choice")
    settings = Settings(limit=60, readout=("auto",))
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
    assert "pca64" not in sizes  # which needs as many training pictures
    assert first.costs.weight_bytes >= 4 * (first.costs.parameters or 0)
    assert first.row_bytes in (4 * 128, 4 * 192, 4 * 384)
    assert first.costs.read_per_second is not None
    assert first.costs.read_per_second > 0
    done, whole = choice.pictures
    assert done <= whole
    assert f"{done:,} pictures were encoded" in " ".join(choice.sentences)


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


def test_the_front_is_what_nothing_beats_in_both() -> None:
    costs = [Costs(rate, 1.0, 1, 4) for rate in (10.0, 20.0, 5.0, 20.0)]
    values = (0.9, 0.8, 0.85, 0.7)
    listed = tuple(
        Candidate(name, "tied", value, costs=cost) for name, value, cost in zip("abcd", values, costs, strict=True)
    )
    choice = Choice("x", "acc@1", "higher", listed, (), (1, 1))
    assert choice.pareto() == ("a", "b")
    lower = Choice("x", "mae", "lower", listed, (), (1, 1))
    assert lower.pareto() == ("d",)


def test_the_command_prints_json_and_writes_a_page(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["choose", "digits", "--encoders", "micro-clip,micro-clip/random", "--limit", "60", "--task", "knn"]
    done = CliRunner().invoke(app, [*words, "--output", str(out), "--json"])
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout[done.stdout.index("{") :])
    assert record["benchmark"] == "digits@knn,readout=auto"
    assert record["sentences"][0].startswith(f"Take {record['candidates'][0]['encoder']}, read out at ")
    page = (out / "choice.html").read_text()
    assert "Which encoder" in page
    assert "pictures a second" in page
    assert "A look at the features" in page


def test_what_cannot_be_chosen_from_is_one_line(tmp_path: Path) -> None:
    words = ["choose", str(tmp_path), "--encoders", "micro-clip,lite:0", "--price", "inf"]
    assert "--price above 0, not 0.05 and inf" in str(CliRunner().invoke(app, words).exception)
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
