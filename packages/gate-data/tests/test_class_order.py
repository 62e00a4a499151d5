"""The order of classes and names that are laid beside them: what numbers call is counted, not sorted as text."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from gate_data.own import OwnBenchmark, guess
from gate_data.own.originals import originals_from
from gate_data.request import DataRequest


def folders(root: Path, names: list[str], each: int = 2) -> None:
    for value, name in enumerate(names):
        (root / name).mkdir(parents=True)
        for number in range(each):
            Image.new("RGB", (8, 8), (20 * value, 0, number)).save(root / name / f"{number}.png")


@pytest.mark.parametrize("form", ["{}", "class{}", "{:03d}"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_line_per_class_goes_to_the_folder_of_its_number(tmp_path: Path, form: str, first: int) -> None:
    folders(tmp_path, [form.format(number + first) for number in range(12)])
    (tmp_path / "names.txt").write_text("".join(f"colour {20 * number}\n" for number in range(12)))
    own = OwnBenchmark.model_validate(
        {
            "benchmark": {"id": "mine", "task": "zero-shot"},
            "data": {"kind": "folders"},
            "classes": {"words": "names.txt"},
        }
    )
    test = originals_from(own, tmp_path / "benchmark.toml").load(tmp_path, DataRequest(size=8))
    shown = [f"colour {int(test.test.images[row][0, 0, 0])}" for row in range(len(test.test))]
    assert [test.classes[int(label)] for label in test.test.targets] == shown
    assert len(set(shown)) == 12


def test_numbers_that_yolos_file_does_not_name_have_a_name_of_their_own(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / "images").mkdir(exist_ok=True)
        (tmp_path / "labels").mkdir(exist_ok=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "images" / f"{number}.png")
        (tmp_path / "labels" / f"{number}.txt").write_text("1 .5 .5 .2 .2\n")
    (tmp_path / "data.yaml").write_text("train: images\nnames: {1: cat, 3: dog}\n")
    assert guess(tmp_path).values["classes"]["names"] == ["class 0", "cat", "class 2", "dog"]
