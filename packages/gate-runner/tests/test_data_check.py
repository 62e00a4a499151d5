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

from . import _gate_files as write


def states(root: Path, *names: str, deep: bool = False) -> dict[str, tuple[str, str]]:
    rows = check_data({name: BENCHMARKS[name].originals for name in names}, root, deep)
    return {row.benchmark: (row.state, "; ".join(row.problems)) for row in rows}


def test_what_is_missing_says_where_to_get_it(tmp_path: Path) -> None:
    data = check_data({benchmark.id: benchmark.originals for benchmark in resolve(["full"])}, tmp_path)
    assert len(data) == 31
    assert {row.state for row in data} == {"missing"}
    assert "food-101/images/" in next(row for row in data if row.benchmark == "food101").problems[0]
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
        "chestxray14": ("whole", "images without any of the five findings are left out"),
    }
    pictures = tmp_path / "food-101" / "images" / "waffles"
    shutil.copy(pictures / "train1.jpg", pictures / "test0.jpg")
    (pictures / "test1.jpg").write_bytes((pictures / "test1.jpg").read_bytes()[:200])
    state, message = states(tmp_path, "food101", deep=True)["food101"]
    assert state == "wrong"
    assert "test0.jpg of test has the content of" in message
    assert "test1.jpg cannot be read as an image" in message
    table = tmp_path / "nih" / "Data_Entry_2017_v2020.csv"
    table.write_text(table.read_text().replace("00000029_000.png,Mass,0,29", "00000029_000.png,Mass,0,0"))
    assert "1 group is in train and in test, such as 0" in states(tmp_path, "chestxray14")["chestxray14"][1]


def test_maps_with_values_that_are_no_class_are_found(tmp_path: Path) -> None:
    write.cityscapes(tmp_path)
    assert "value" not in states(tmp_path, "cityscapes")["cityscapes"][1]
    wrong = next(tmp_path.rglob("*_gtFine_labelIds.png"))
    Image.fromarray(np.full((4, 4), 40, dtype=np.uint8)).save(wrong)
    state, message = states(tmp_path, "cityscapes")["cityscapes"]
    assert (state, f"{wrong} has the value 40, expected 0 to 33" in message) == ("wrong", True)


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


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Ten images of two classes in drawn pixels, with a benchmark's file."""
    pixels = np.random.default_rng(0).integers(0, 255, (2, 2, 5, 32, 32, 3), np.uint8)
    for split, by_class in zip(("train", "test"), pixels, strict=True):
        for label, pictures in zip(("cat", "dog"), by_class, strict=True):
            folder = tmp_path / split / label
            folder.mkdir(parents=True)
            for number, picture in enumerate(pictures):
                Image.fromarray(picture).save(folder / f"{number}.png")
    text = '[benchmark]\nid = "pets"\n[data]\nkind = "folders"\n[splits]\ntrain = "train"\ntest = "test"\n'
    (tmp_path / "benchmark.toml").write_text(text)
    return tmp_path


@pytest.mark.parametrize("file", ["", "benchmark.toml"])
def test_own_data_are_looked_at_by_their_file_or_its_folder(
    pets: Path, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["check-data", str(pets / file)])
    shown = capsys.readouterr().out
    assert "2 classes (all, of them test): cat 10 (5), dog 10 (5)" in shown
    assert shown.splitlines()[-1].split() == ["pets", "whole", "10", "10"]
    shutil.copy(pets / "train" / "cat" / "0.png", pets / "test" / "dog" / "4.png")
    content = (pets / "test" / "cat" / "1.png").read_bytes()
    (pets / "test" / "cat" / "1.png").write_bytes(content[:200])
    with pytest.raises(SystemExit, match=r"^1$"):
        main(["check-data", str(pets / file), "--deep"])
    shown = capsys.readouterr().out
    assert "4.png of test has the content of" in shown
    assert "1.png cannot be read as an image" in shown


def test_a_name_without_original_files_is_an_error(pets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check-data", str(pets), str(pets / "benchmark.toml")])
    assert "pets: no original files are read" in capsys.readouterr().err


def test_a_folder_of_classes_is_checked_as_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = np.random.default_rng(0)
    for name in ("cat", "frog"):
        (tmp_path / "traps" / name).mkdir(parents=True)
        for number in range(10):
            pixels = draw.integers(0, 255, (32, 32, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "traps" / name / f"{number}.png")
    with pytest.raises(SystemExit) as done:
        main(["check-data", str(tmp_path / "traps"), "--near"])
    assert not done.value.code
    shown = capsys.readouterr().out.splitlines()
    assert shown[-2].split() == ["traps", "whole", "16", "4"]
    assert shown[-1].startswith("traps: 20 images compared, 0 groups")
    assert not any("cifar100" in line for line in shown)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit) as done:
        main(["check-data", str(tmp_path / "empty")])  # nothing of anybody's
    assert done.value.code == 1
    printed = capsys.readouterr()
    assert not printed.out
    sets, own = printed.err.splitlines()
    assert "none of GATE's 31 data sets" in sets
    assert f"gate-runner check-data {tmp_path / 'empty'} cifar100 " in sets
    assert f"gate-runner new {tmp_path / 'empty'} makes a benchmark of it" in own
    with pytest.raises(SystemExit):
        main(["check-data", str(tmp_path / "empty"), "cifar100"])
    assert "cifar-100-python.tar.gz" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["check-data", str(tmp_path / "empty"), "--json"])
    assert len(json.loads(capsys.readouterr().out)) == 31


def test_why_a_folder_is_not_ones_own_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for split in ("train", "val"):
        for kind in ("images", "labels"):
            (tmp_path / kind / split).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "images" / split / "1.png")
        (tmp_path / "labels" / split / "1.txt").write_text("0 .5 .5 .4 .4\n")
    (tmp_path / "data.yaml").write_text("train: images/train\nval: images/val\nnc: 3\nnames: [a, b]\n")
    with pytest.raises(SystemExit) as ended:
        main(["check-data", str(tmp_path)])
    assert ended.value.code == 1
    printed = capsys.readouterr()
    assert "it is not a folder of your own data: " in printed.err
    assert "'nc' is 3, and 'names' has 2" in printed.err
