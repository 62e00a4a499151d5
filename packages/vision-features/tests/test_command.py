"""The command ``vision-features``, and the example: a folder of images to features and to a score."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vision_features.cli import main
from vision_features.encoders.spec import usual_encoder
from vision_features.heads.predicting import image_files
from wary_files.errors import DataError

PROBE = Path(__file__).parents[1] / "examples" / "probe.py"
COLOURS = {"red": (200, 40, 40), "green": (40, 200, 40), "blue": (40, 40, 200)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three classes of 12 images of one colour each."""
    for name, colour in COLOURS.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(12):
            pixels = np.random.default_rng([number, *colour]).integers(-40, 40, (32, 32, 3)) + np.array(colour)
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


def test_features_are_written_with_labels(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "features.npz"
    assert main(["embed", str(folder), "--output", str(output), "--encoder", "micro-clip", "--device", "cpu"]) == 0
    assert capsys.readouterr().out == f"wrote {output}, 36 images\n"
    with np.load(output) as arrays:
        assert arrays["features"].shape == (36, 128)
        assert set(arrays["labels"]) == set(COLOURS)


def test_the_usual_encoder_is_named(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, reason = usual_encoder()
    assert main(["embed", str(folder), "--output", str(tmp_path / "usual.npz"), "--limit", "3"]) == 0
    assert capsys.readouterr().err.startswith(reason)
    assert reason.startswith(f"{spec}: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["embed", "photos", "--output", "x.txt"], "x.txt must end in .npz or .parquet"),
        (["predict", "nowhere", "photos"], "nowhere holds no head"),
        (["predict", "nowhere", "photos", "--output", "x.json"], "x.json must end in .csv"),
        (
            ["embed", "photos", "--output", "out.npz", "--encoder", "micro-clip", "--batch-size", "0"],
            "at least 1, not 0",
        ),
    ],
)
def test_a_wrong_request_is_one_line(
    words: list[str], message: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.parent)
    assert main(words) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_is_called_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"a\.png is no file that holds data, but a pipe"):
        image_files([tmp_path / "a.png"])


def test_the_example_has_forty_lines_and_a_score(folder: Path) -> None:
    assert len(PROBE.read_text().splitlines()) <= 40
    score = runpy.run_path(str(PROBE))["probe"](str(folder), "micro-clip")
    assert score.value == 1.0
    assert score.low < 1.0
