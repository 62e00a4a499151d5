"""The order of classes and names that are laid beside them: what numbers call is counted, not sorted as text."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from gate_data.errors import UsageError
from gate_data.own import OwnBenchmark, guess
from gate_data.own.class_names import in_class_order, names_from_file
from gate_data.own.originals import originals_from
from gate_data.request import DataRequest


def folders(root: Path, names: list[str], each: int = 2) -> None:
    for value, name in enumerate(names):
        (root / name).mkdir(parents=True)
        for number in range(each):
            Image.new("RGB", (8, 8), (20 * value, 0, number)).save(root / name / f"{number}.png")


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (["10", "2", "1"], ["1", "2", "10"]),
        (["class10", "class9"], ["class9", "class10"]),
        (["010", "2"], ["2", "010"]),
        (["1", "01", "2"], ["01", "1", "2"]),  # one number twice: as text
        (["a10", "b9"], ["a10", "b9"]),
        (["0.5", "0.10"], ["0.10", "0.5"]),
        (["10 cats", "9 cats"], ["10 cats", "9 cats"]),
    ],
)
def test_numbers_are_counted(names: list[str], order: list[str]) -> None:
    assert in_class_order(names) == order


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a;owl\nb;hen\n", "name a class, 'a'"),
        ("a: owl\nb: hen\n", "name a class, 'a'"),
        ("a=owl\nb=hen\n", "name a class, 'a'"),
        ("owl,b\nhen,a\n", "name a class, 'b'"),
        ("owl\tb\nhen\ta\n", "name a class, 'b'"),
        ("owl,1\nhen,0\n", "hold numbers"),
        ("1: owl\n0: hen\n", "hold numbers"),
        ("1 owl\n0 hen\n", "hold numbers"),
        ("1 owl\n2 hen\n", "hold numbers"),
    ],
)
def test_lines_of_names_with_another_column_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "n.txt").write_text(text)
    with pytest.raises(UsageError, match=f"n.txt: lines such as .* {message}.*write a line per class"):
        names_from_file(tmp_path / "n.txt", ("a", "b"))


@pytest.mark.parametrize(
    "text", ["owl, grey\nhen, red\n", "type 1\ntype 2\n", "1 door\n2 door\n", "ratio 1:2\nratio 2:3\n"]
)
def test_words_with_signs_and_numbers_stay_words(tmp_path: Path, text: str) -> None:
    (tmp_path / "n.txt").write_text(text)
    assert names_from_file(tmp_path / "n.txt", ("a", "b")) == tuple(text.strip().split("\n"))
