"""``check-data``: what is there, what is missing, and splits that overlap."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gate_data.checking import check_data
from gate_runner.benchmarks import BENCHMARKS, resolve
from gate_runner.cli import main
from gate_runner.errors import DataError
from gate_runner.near_duplicates import near_duplicates

from . import _gate_files as write


def states(root: Path, *names: str, deep: bool = False) -> dict[str, tuple[str, str]]:
    rows = check_data({name: BENCHMARKS[name].originals for name in names}, root, deep)
    return {row.benchmark: (row.state, "; ".join(row.problems)) for row in rows}


def test_what_is_missing_says_where_to_get_it(tmp_path: Path) -> None:
    found = check_data({each.id: each.originals for each in resolve(["full"])}, tmp_path)
    assert len(found) == 31
    assert {row.state for row in found} == {"missing"}
    assert "food-101/images/" in next(row for row in found if row.benchmark == "food101").problems[0]
    with pytest.raises(DataError, match="is not a folder"):
        check_data({}, tmp_path / "nothing")


def test_counts_overlaps_and_broken_pictures(tmp_path: Path) -> None:
    write.food101(tmp_path)
    write.chestxray14(tmp_path)
    assert states(tmp_path, "food101", "chestxray14") == {
        "food101": (
            "incomplete",
            "10 / 4 samples to train on and to score, published are 75,750 / 25,250; 2 classes, published are 101",
        ),
        "chestxray14": ("whole", "pictures without any of the five findings are left out"),
    }
    pictures = tmp_path / "food-101" / "images" / "waffles"
    shutil.copy(pictures / "train1.jpg", pictures / "test0.jpg")
    (pictures / "test1.jpg").write_bytes((pictures / "test1.jpg").read_bytes()[:200])
    state, said = states(tmp_path, "food101", deep=True)["food101"]
    assert state == "wrong"
    assert "test0.jpg of test has the content of" in said
    assert "test1.jpg cannot be read as an image" in said
    table = tmp_path / "nih" / "Data_Entry_2017_v2020.csv"
    table.write_text(table.read_text().replace("00000029_000.png,Mass,0,29", "00000029_000.png,Mass,0,0"))
    assert "1 groups are in train and in test, such as 0" in states(tmp_path, "chestxray14")["chestxray14"][1]


def test_maps_with_values_that_are_no_class_are_found(tmp_path: Path) -> None:
    write.cityscapes(tmp_path)
    assert "value" not in states(tmp_path, "cityscapes")["cityscapes"][1]
    wrong = next(tmp_path.rglob("*_gtFine_labelIds.png"))
    Image.fromarray(np.full((4, 4), 40, dtype=np.uint8)).save(wrong)
    state, said = states(tmp_path, "cityscapes")["cityscapes"]
    assert (state, f"{wrong} has the value 40, expected 0 to 33" in said) == ("wrong", True)


def test_the_command_prints_json_and_fails_on_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write.dtextures(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["check-data", str(tmp_path), "dtextures", "--json"])
    assert not ended.value.code
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["state"], row["counts"]) == ("incomplete", [72, 42])
    shutil.rmtree(tmp_path / "dtd" / "images" / "woven")
    with pytest.raises(SystemExit) as failed:
        main(["check-data", str(tmp_path), "dtextures"])
    assert failed.value.code == 1
    assert "dtextures     wrong" in capsys.readouterr().out


def test_near_duplicates_across_splits_are_listed_and_are_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write.food101(tmp_path)
    pictures = tmp_path / "food-101" / "images" / "waffles"
    generator = np.random.default_rng(0)
    for number, path in enumerate(sorted((tmp_path / "food-101" / "images").rglob("*.jpg"))):
        coarse = generator.integers(0, 255, (6, 6, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((80 + number % 3, 80), Image.Resampling.BICUBIC).save(path, quality=95)
    with Image.open(pictures / "train1.jpg") as opened:
        opened.resize((61, 60)).save(pictures / "test0.jpg", quality=60)
    food = {"food101": BENCHMARKS["food101"].originals}
    (row,) = check_data(food, tmp_path, near=lambda sides: map(str, near_duplicates(sides, 4)))
    (said,) = row.near
    assert f"{pictures / 'test0.jpg'} of test is nearly {pictures / 'train1.jpg'} of train" in said
    assert row.state == "incomplete", "what is alike is to be looked at, and is no error"
    assert check_data(food, tmp_path)[0].near == ()
    with pytest.raises(SystemExit) as ended:
        main(["check-data", str(tmp_path), "food101", "--near", "4"])
    assert not ended.value.code
    assert "1 near-duplicates across splits: " in capsys.readouterr().out
