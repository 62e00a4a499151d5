"""Near copies from the command line: check-data --near, its page, a run's note, and runs without the copies."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gate_runner
from gate_runner.cli import main

TEXT = '[benchmark]\nid = "pets"\n[data]\nkind = "folders"\n[splits]\ntrain = "train"\ntest = "test"\n'


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Two classes in drawn blocks, of which one test image is a training image, mirrored."""
    cells = np.random.default_rng(0).integers(0, 255, (2, 2, 8, 8, 8, 3), np.uint8)
    for split, by_class in zip(("train", "test"), cells.repeat(8, 3).repeat(8, 4), strict=True):
        for label, pictures in zip(("cat", "dog"), by_class, strict=True):
            folder = tmp_path / "pets" / split / label
            folder.mkdir(parents=True)
            for number, picture in enumerate(pictures):
                Image.fromarray(picture).save(folder / f"{number}.png")
    with Image.open(tmp_path / "pets" / "train" / "dog" / "2.png") as image:
        image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(tmp_path / "pets" / "test" / "dog" / "1.png")
    (tmp_path / "pets" / "benchmark.toml").write_text(TEXT)
    return tmp_path / "pets"


def test_check_data_shows_groups_as_text_page_and_json(pets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = pets.parent / "near.html"
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["check-data", str(pets), "--near", "--page", str(page)])
    shown = capsys.readouterr().out
    assert "32 images compared, 1 groups of near copies, 1 of them in several splits (1 test images)" in shown
    assert "train/dog/2.png (" in shown
    assert page.read_text().count("data:image/jpeg") == 2
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["check-data", str(pets), "--near", "--json"])
    (row,) = json.loads(capsys.readouterr().out)
    assert row["near"]["test_images"] == [str(pets / "test" / "dog" / "1.png")]
    assert [len(group) for group in row["near"]["groups"]] == [2]


def test_a_page_without_near_is_refused(pets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["check-data", str(pets), "--page", "near.html"])
    assert "give --near" in capsys.readouterr().err


def test_a_run_says_it_and_drop_near_leaves_copies_out(pets: Path) -> None:
    file = str(pets / "benchmark.toml")
    options = {"encoder": "micro-clip/random", "show": False}
    (whole,) = gate_runner.run(file, output=pets / "runs" / "all", **options)
    assert "1 test image is a near copy of others" in whole.note
    (left,) = gate_runner.run(file, output=pets / "runs" / "without", drop_near=True, **options)
    assert "left out as near copies of test images" in left.note
    counts = [result.data["train"] + result.data["validation"] for result in (whole, left)]
    assert counts == [16, 15]
    assert left.data["test"] == whole.data["test"]


def test_drop_near_of_data_that_are_no_files_is_refused(tmp_path: Path) -> None:
    (result,) = gate_runner.run(
        "digits", encoder="micro-clip/random", limit=40, drop_near=True, output=tmp_path, show=False
    )
    assert "setting drop_near compares lists of image files" in result.reason
