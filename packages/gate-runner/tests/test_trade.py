"""What an encoder gained and lost between two runs: kinds, means, the page, and the command."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
import torch

from gate_runner.cli import main
from gate_runner.commands.results import _mixed, _with_start
from gate_runner.comparison import compare, trade_between
from gate_runner.errors import EncoderError, UsageError
from gate_runner.reports.trade import trade_page
from gate_runner.runs.stored import read_runs
from vision_features.encoders import load_encoder
from vision_features.encoders.tuned import save_tuned, share_of

from ._folders import write_run

BEFORE = {"digits": 0.9, "micro/cifar100": 0.85, "micro/ade20k": 0.4, "micro/iwildcam": 0.3}
AFTER = {"digits": 0.5, "micro/cifar100": 0.45, "micro/ade20k": 0.8, "micro/iwildcam": 1.2}
MIDDLE = {"digits": 0.7, "micro/cifar100": 0.65, "micro/ade20k": 0.6, "micro/iwildcam": 0.7}


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [
        write_run(tmp_path / name, skills, encoder=name)
        for name, skills in (("old", BEFORE), ("new", AFTER), ("half", MIDDLE))
    ]


def test_kinds_have_the_mean_of_their_benchmarks(folders: list[Path]) -> None:
    old, new, half = read_runs(folders)
    trade = trade_between(old, new, [half], permutations=99)
    contrasts = {contrast.name: contrast for contrast in compare(old, new, permutations=99).contrasts}
    sides = {side.kind: side for side in trade.sides}
    assert set(sides) == {"recognition", "other tasks", "mae of micro/iwildcam"}
    lost = sides["recognition"]
    assert lost.verdict == "lost"
    assert {contrast.name for contrast in lost.contrasts} == {"digits", "micro/cifar100"}
    two = [contrasts["digits"], contrasts["micro/cifar100"]]
    assert math.isclose(lost.gain, sum(contrast.gain for contrast in two) / 2)
    widths = [(contrast.test.high - contrast.test.low) / 2 for contrast in two]
    assert math.isclose((lost.high - lost.low) / 2, math.hypot(*widths) / 2)
    # A smaller error is a gain, in a unit that has no mean with shares.
    for kind in ("other tasks", "mae of micro/iwildcam"):
        assert sides[kind].verdict == "gained"
        assert all(contrast.gain > 0 for contrast in sides[kind].contrasts)
    assert trade.sentence.startswith("new gained +0.")
    assert "and lost −0." in trade.sentence
    labels = [label for label, _ in trade.front]
    assert labels == ["old", "half", "new"]
    assert trade.front[0][1] == dict.fromkeys(sides, 0.0)
    assert lost.gain < trade.front[1][1]["recognition"] < 0


def groups(page: str) -> dict[str, str]:
    """The rows of each verdict."""
    table = page.split('<section id="benchmarks">')[1].split("</table>")[0]
    parts = re.split(r'<tr class="group"><th[^>]*>([^<(:]*)[^<]*</th></tr>', table)[1:]
    return dict(zip((name.strip() for name in parts[::2]), parts[1::2], strict=True))


def test_the_page_sorts_by_verdict_and_says_what_is_synthetic(folders: list[Path]) -> None:
    old, new, half = read_runs(folders)
    page = trade_page(trade_between(old, new, [half], permutations=99))
    rows = groups(page)
    assert set(rows) == {"Gained", "Lost"}
    assert "micro/ade20k" in rows["Gained"]
    assert "strip gained" in rows["Gained"]
    assert "digits" in rows["Lost"]
    assert "strip lost" in rows["Lost"]
    mixes = page.split("Mixes between the two")[1]
    (drawn,) = re.findall(r"<title>Gains over gains in recognition</title>.*?</svg>", mixes, re.DOTALL)
    assert drawn.count("<circle") == 3
    assert "<script" not in page
    assert "3 of 4 benchmarks here are synthetic stand-ins" in page


def test_what_the_test_does_not_decide_is_no_gain(tmp_path: Path) -> None:
    places = [
        write_run(tmp_path / name, {"digits": skill, "cifar100": other}, encoder=name)
        for name, skill, other in (("old", 0.5, 0.2), ("new", 0.52, 0.9))
    ]
    page = trade_page(trade_between(*read_runs(places), permutations=99))
    rows = groups(page)
    assert "cifar100" in rows["Gained"]
    assert "digits" not in rows["Gained"]
    assert "digits" in rows["Undecided"]
    assert "stand-in" not in page


def test_bars_end_inside_and_no_change_is_in_the_middle(folders: list[Path]) -> None:
    page = trade_page(trade_between(*read_runs(folders[:2]), permutations=99))
    bars = [(float(x), float(width)) for x, width in re.findall(r'<rect x="([-\d.]+)" y="2" width="([\d.]+)"', page)]
    assert len(bars) == 7
    assert all(x >= -0.01 and x + width <= 100.81 for x, width in bars)
    assert page.count('<line x1="50" y1="0" x2="50"') == 7
    # The longest of each scale reaches an end.
    assert max(max(50 - x, x + width - 50) for x, width in bars) == pytest.approx(50, abs=0.1)


def test_the_command_reads_runs_and_writes_a_page(folders: list[Path], tmp_path: Path, capsys: object) -> None:
    page = tmp_path / "page.html"
    main_exits_well(["trade", *map(str, folders[:2]), "--mix", str(folders[2]), "--page", str(page), "--json"])
    record = json.loads(capsys.readouterr().out)  # type: ignore[attr-defined]
    assert {side["kind"] for side in record["sides"]} == {"recognition", "other tasks", "mae of micro/iwildcam"}
    assert "new gained" in page.read_text(encoding="utf-8")


def test_a_mix_that_saw_other_data_is_refused(folders: list[Path], tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", MIDDLE, encoder="other", data={"sha256": "others", "test": 120})
    with pytest.raises(UsageError, match=r"cannot be compared: data sha256 is .* and others in"):
        trade_between(*read_runs(folders[:2]), read_runs([other]), permutations=99)


def main_exits_well(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0


def test_a_share_without_a_tuned_encoder_is_refused(folders: list[Path], capsys: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["trade", str(folders[0]), str(folders[1]), "--share", "0.5"])
    assert ended.value.code == 2
    assert "expected 0 to 1, of an encoder tuned:FOLDER" in capsys.readouterr().err  # type: ignore[attr-defined]


def test_a_trained_encoder_starts_where_the_command_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder may not name a start that is fetched; BEFORE may, and a plain folder has shares, too."""
    monkeypatch.chdir(tmp_path)
    Path("ft").mkdir()
    card = {
        "schema": "gate-runner/encoder/1",
        "encoder": {"spec": "open_clip:RN50/openai", "start": "0", "fingerprint": "1"},
    }
    Path("ft/card.json").write_text(json.dumps(card))
    assert _with_start("tuned:ft", "open_clip:RN50/openai") == "tuned:ft=open_clip:RN50/openai"
    assert _with_start("ft", "open_clip:RN50/openai") == "tuned:ft=open_clip:RN50/openai"
    assert _mixed(_with_start("ft", "open_clip:RN50/openai"), 0.5) == "tuned:ft@0.5=open_clip:RN50/openai"
    assert _with_start("ft", "micro-clip") == "tuned:ft"
    assert _with_start("tuned:ft=mine:make", "micro-clip") == "tuned:ft=mine:make"
    assert _with_start("micro-clip", "micro-clip") == "micro-clip"


def test_benchmarks_by_default_without_their_files_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["trade", "micro-clip", "micro-clip/random"])
    assert ended.value.code == 2
    assert "icinw, compositional, flickr30k, the benchmarks by default, read original" in capsys.readouterr().err


def test_shares_are_read_from_the_end_of_a_folder() -> None:
    assert share_of("runs/a@home/x") == ("runs/a@home/x", 1.0)
    assert share_of("runs/x@0.25") == ("runs/x", 0.25)
    with pytest.raises(EncoderError, match=r"between 0 and 1, not at 1\.5"):
        share_of("runs/x@1.5")


def test_a_share_of_a_trained_encoder_lies_between_its_weights(tmp_path: Path) -> None:
    encoder = load_encoder("micro-clip")
    assert encoder.module is not None
    start = {name: value.clone() for name, value in encoder.module.state_dict().items()}
    with torch.no_grad():
        encoder.module.logit_scale.add_(1.0)
    folder = save_tuned(encoder, start, tmp_path / "kept", {})
    scales = []
    for spec in (f"tuned:{folder}@0", f"tuned:{folder}@0.25", f"tuned:{folder}"):
        mixed = load_encoder(spec)
        assert mixed.spec == spec
        assert mixed.module is not None
        scales.append(float(mixed.module.state_dict()["logit_scale"]))
    first = float(start["logit_scale"])
    assert scales == pytest.approx([first, first + 0.25, first + 1.0])


def test_every_encoder_is_looked_at_before_the_first_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["trade", "micro-clip/random", "tuned:runs/ft", "digits", "--limit", "20"])
    assert ended.value.code == 2
    assert "runs/ft" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("samples", "says"), [(29, True), (30, False)])
def test_few_samples_are_no_evidence(samples: int, says: bool, tmp_path: Path) -> None:
    data = {"sha256": "few", "test": samples}
    places = [
        write_run(tmp_path / name, {"digits": skill}, encoder=name, samples=samples, data=data)
        for name, skill in (("old", 0.2), ("new", 0.9))
    ]
    sentence = trade_between(*read_runs(places), permutations=99).sentence
    assert ("Fewer than 30 test samples are no evidence: digits (29)." in sentence) == says
