"""Labels and folders that are a slip: refused, or said beside the score, never classes of their own in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from gate_data.boxes.files import read_coco
from gate_data.errors import DataError
from gate_data.own import OwnBenchmark, guess, write_benchmark
from gate_data.own.originals import originals_from, originals_of, parts_of
from gate_data.readers import classes_in, table


def picture(path: Path, value: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (value % 256, value // 256, 0)).save(path)


def note_of(root: Path, rows: str, **classes: Any) -> str:
    for number in range(12):
        picture(root / f"{number}.png", number)
    (root / "t.jsonl" if rows.startswith("{") else root / "t.csv").write_text(rows)
    name = "t.jsonl" if rows.startswith("{") else "t.csv"
    values = {"benchmark": {"id": "a"}, "data": {"kind": "table", "table": name}, "classes": classes}
    originals = originals_from(OwnBenchmark.model_validate(values), root / "benchmark.toml")
    assert originals.parts is not None
    return originals.parts(root).note


def labelled(*labels: str) -> str:
    return "image,label\n" + "".join(f"{row}.png,{labels[row % len(labels)]}\n" for row in range(12))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("1", "1.0", "2"), "are classes of their own: '1', '1.0'"),
        (("1", "01", "a"), "are classes of their own: '01', '1'"),
        (("cat", "dog", "nan"), "4 samples are labelled 'nan', which is a class here"),
        (("1", "2", "3"), ""),
        (("-1", "1"), ""),
        (("1", "one"), ""),
        (("9007199254740992", "9007199254740993"), ""),  # one float, two numbers
    ],
)
def test_labels_that_are_one_number_are_told(tmp_path: Path, labels: tuple[str, ...], expected: str) -> None:
    note = note_of(tmp_path, labelled(*labels))
    assert expected in note
    assert bool(expected) == bool(note)


def test_truths_beside_numbers_in_json_are_told(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"image": f"{row}.png", "label": (1, True, 0)[row % 3]}) + "\n" for row in range(12))
    assert "are classes of their own: '1', 'True'" in note_of(tmp_path, rows)


def test_pictures_with_several_labels_are_counted(tmp_path: Path) -> None:
    note = note_of(tmp_path, labelled("a", "b") + "0.png,b\n1.png,b\n2.png,b\n")
    assert "2 images have several labels, such as " in note
    assert "0.png (a, b)" in note


def test_hidden_labels_are_refused_with_their_row(tmp_path: Path) -> None:
    rows = labelled("0", "1", "2", "-1")
    with pytest.raises(DataError, match=r"t\.csv, line 5: the label is -1 among 0 to 2"):
        note_of(tmp_path, rows)
    assert note_of(tmp_path, rows, names=["-1", "0", "1", "2"]) == ""


def test_a_folder_that_was_divided_later_is_refused(tmp_path: Path) -> None:
    for name in "ab":
        for number in range(4):
            picture(tmp_path / name / f"{number}.png", number)
    write_benchmark(guess(tmp_path).values, tmp_path / "benchmark.toml")
    for split in ("train", "val"):
        for name in "ab":
            for number in range(4):
                picture(tmp_path / split / name / f"{number}.png", number)
    for name in "ab":
        for file in (tmp_path / name).iterdir():
            file.unlink()
        (tmp_path / name).rmdir()
    with pytest.raises(DataError, match=r'names no splits: write train = "train", validation = "val" under \[splits\]'):
        originals_of(tmp_path / "benchmark.toml").check(tmp_path)


def test_a_class_that_is_called_test_stays_a_class(tmp_path: Path) -> None:
    for name in ("test", "tube"):
        for number in range(4):
            picture(tmp_path / name / f"{number}.png", number)
    own = OwnBenchmark.model_validate({"benchmark": {"id": "a"}, "data": {"kind": "folders"}})
    originals = originals_from(own, tmp_path / "benchmark.toml")
    assert originals.parts is not None
    assert originals.parts(tmp_path).classes == ("test", "tube")


def test_pictures_below_a_class_with_a_stray_picture_are_counted(tmp_path: Path) -> None:
    for name in "ab":
        picture(tmp_path / name / "top.png")
        picture(tmp_path / name / "top2.png", 1)
        for number in range(5):
            picture(tmp_path / name / "session1" / f"{number}.png", number)
            picture(tmp_path / name / "session1" / "deeper" / f"{number}.png", number)
    own = OwnBenchmark.model_validate({"benchmark": {"id": "a"}, "data": {"kind": "folders"}})
    originals = originals_from(own, tmp_path / "benchmark.toml")
    assert originals.parts is not None
    note = originals.parts(tmp_path).note
    assert "20 files left out, in folders below classes that have files of their own" in note
    assert "a/session1 10" in note


@pytest.mark.parametrize("box", [["1", "1", "3", "3"], [1, 1, True, 3], [True, False, 3, 3]])
def test_boxes_are_numbers(tmp_path: Path, box: list[Any]) -> None:
    picture(tmp_path / "0.png")
    content = {
        "images": [{"id": 1, "file_name": "0.png", "width": 8, "height": 8}],
        "categories": [{"id": 1, "name": "a"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": box}],
    }
    (tmp_path / "coco.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"entry 0: field 'bbox' is .*, expected four numbers"):
        read_coco(tmp_path / "coco.json")


def test_true_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"value": true}\n')
    (row,) = table(tmp_path / "a.jsonl", ["value"])
    for read in (row.number, row.integer):
        with pytest.raises(DataError, match="field 'value' is 'True', expected a"):
            read("value")


@pytest.mark.parametrize("kind", [".png", ".mp4"])
@pytest.mark.parametrize("splits", [("",), ("train/", "test/")])
def test_what_commands_left_in_the_folder_of_pictures_is_no_class(
    tmp_path: Path, splits: tuple[str, ...], kind: str
) -> None:
    for split in splits:
        for number in range(6):
            picture(tmp_path / f"{split}{'ab'[number % 2]}" / f"{number}.png", number)
    runs = tmp_path / "runs" / "micro-clip"
    for inner in ("locks", "results"):
        (runs / inner).mkdir(parents=True)
    (runs / "manifest.json").write_text("{}")
    write_benchmark(guess(tmp_path).values, tmp_path / "benchmark.toml")
    originals = originals_of(tmp_path / "benchmark.toml")
    assert originals.parts is not None
    assert originals.parts(tmp_path).classes == ("a", "b")
    (runs / f"kept{kind}").touch()  # a folder of that name that is the user's own
    assert "runs" in classes_in(tmp_path)


@pytest.mark.parametrize("name", ["x-1.0.dist-info", "x.egg-info", "__pycache__", "@eaDir", "__MACOSX", ".hidden"])
@pytest.mark.parametrize("splits", [("",), ("train/", "test/")])
@pytest.mark.parametrize("group", ["", "g/"])
def test_what_systems_and_tools_leave_is_no_class(
    tmp_path: Path, splits: tuple[str, ...], name: str, group: str
) -> None:
    for split in splits:
        for number in range(6):
            picture(tmp_path / f"{split}{group}{'ab'[number % 2]}" / f"{number}.png", number)
        picture(tmp_path / f"{split}{group}{name}" / "0.png", 7)
    write_benchmark(guess(tmp_path).values, tmp_path / "benchmark.toml")
    originals = originals_of(tmp_path / "benchmark.toml")
    assert originals.parts is not None
    assert originals.parts(tmp_path).classes == (f"{group}a", f"{group}b")


@pytest.mark.parametrize("left", ["o/manifest.json", "o/micro-clip/manifest.json", "head/card.json"])
def test_what_commands_wrote_under_any_name_is_no_class(tmp_path: Path, left: str) -> None:
    for number in range(6):
        picture(tmp_path / "ab"[number % 2] / f"{number}.png", number)
    (tmp_path / left).parent.mkdir(parents=True)
    (tmp_path / left).write_text("{}")
    (tmp_path / left).with_name("locks").mkdir()
    assert classes_in(tmp_path) == ["a", "b"]
    picture(tmp_path / Path(left).parts[0] / "1.png")
    assert len(classes_in(tmp_path)) == 3


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("a", "b", "a, b"), "1 label is a list of others, and a class of its own here, such as 'a, b'"),
        (("a", "b", "c", "a;b"), "separator = ';'"),
        (("salt, sea", "b"), ""),
        (("a", "a/b", "c"), ""),
    ],
)
def test_labels_that_are_lists_of_others_are_told(tmp_path: Path, labels: tuple[str, ...], expected: str) -> None:
    rows = "\n".join(json.dumps({"image": f"{row}.png", "label": labels[row % len(labels)]}) for row in range(12))
    note = note_of(tmp_path, rows)
    assert expected in note if expected else "lists of others" not in note


def test_rows_that_are_there_twice_are_told(tmp_path: Path) -> None:
    assert "2 rows equal another and count again" in note_of(tmp_path, labelled("a", "b") + "0.png,a\n1.png,b\n")
    assert "equal another" not in note_of(tmp_path, labelled("a", "b"))


def captioned(root: Path, captions: list[str]) -> str:
    for number in range(len(captions)):
        picture(root / f"{number}.png", number)
    rows = [json.dumps({"image": f"{row}.png", "caption": caption}) for row, caption in enumerate(captions)]
    (root / "t.jsonl").write_text("\n".join(rows))
    originals = originals_from(OwnBenchmark.model_validate(guess(root).values), root / "benchmark.toml")
    assert originals.parts is not None
    return originals.parts(root).note


def test_captions_of_several_images_are_told(tmp_path: Path) -> None:
    note = captioned(tmp_path / "shared", [f"a thing {number % 9}" for number in range(12)])
    assert "3 captions stand with several images, such as 'a thing 0' with 2" in note
    assert "several images" not in captioned(tmp_path / "own", [f"a thing {number}" for number in range(12)])


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ("is_test", "01", "column 'is_test' is not used: if it divides the samples"),
        ("Fold", "123", "column 'Fold' is not used: if it divides the samples"),
        ("PatientID", "abc", "column 'PatientID' is not used: if its samples belong together"),
        ("lesion_id", "abc", "column 'lesion_id' is not used: if its samples belong together"),
        ("patient", "abc", ""),
        ("split", ("train", "test", "val"), ""),
        ("width", "123", ""),
    ],
)
def test_columns_that_may_divide_the_samples_are_told_if_they_are_not_used(
    tmp_path: Path, column: str, values: tuple[str, ...], expected: str
) -> None:
    for number in range(12):
        picture(tmp_path / f"{number}.png", number)
    rows = "".join(f"{row}.png,{'ab'[row % 2]},{values[row % len(values)]}\n" for row in range(12))
    (tmp_path / "t.csv").write_text(f"image,label,{column}\n{rows}")
    remarks = "; ".join(guess(tmp_path).remarks)
    assert expected in remarks if expected else "not used" not in remarks


@pytest.mark.parametrize("place", ["loop", "g/loop", "g/a/loop"])
@pytest.mark.parametrize("target", ["", "g"])
def test_a_link_to_what_holds_it_is_not_followed(tmp_path: Path, place: str, target: str) -> None:
    for number in range(12):
        picture(tmp_path / "g" / "ab"[number % 2] / f"{number}.png", number)
    if place == "loop" and target:
        pytest.skip("that is another name of the folder, and no loop")
    (tmp_path / place).symlink_to(tmp_path / target)
    write_benchmark(guess(tmp_path).values, tmp_path / "benchmark.toml")
    originals = originals_of(tmp_path / "benchmark.toml")
    assert originals.parts is not None
    parts = originals.parts(tmp_path)
    assert parts.classes == ("g/a", "g/b")
    assert "left out" not in parts.note


@pytest.mark.parametrize(
    ("caption", "refused"),
    [("['a', 'b']", True), ('["a", "b"]', True), ("['a']", True), ("[sic] a cat", False), ("a ['b']", False)],
)
def test_a_list_in_one_cell_is_no_caption(tmp_path: Path, caption: str, refused: bool) -> None:
    captions = [caption, *(f"a thing {number}" for number in range(11))]
    if refused:
        with pytest.raises(DataError, match=r"t\.jsonl, line 1: field 'caption' .* one caption: give each"):
            captioned(tmp_path / "a", captions)
    else:
        captioned(tmp_path / "a", captions)


@pytest.mark.parametrize(("form", "near"), [("{}.PNG", "0.png"), ("{}", "0.png"), ("{}.jpg", "0.png"), ("x{}.png", "")])
def test_files_that_are_nearly_there_are_named(tmp_path: Path, form: str, near: str) -> None:
    rows = "".join(f"{form.format(row)},{'ab'[row % 2]}\n" for row in range(12))
    with pytest.raises(DataError, match="12 of 12 files are not there") as caught:
        note_of(tmp_path, "image,label\n" + rows)
    assert (f"there is {near}: names have to agree" in str(caught.value)) == bool(near)


def test_a_link_that_leads_nowhere_is_called_so(tmp_path: Path) -> None:
    for number in range(12):
        picture(tmp_path / "ab"[number % 2] / f"{number}.png", number)
    (tmp_path / "a" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    own = OwnBenchmark.model_validate({"benchmark": {"id": "a"}, "data": {"kind": "folders"}})
    with pytest.raises(DataError, match=r"gone\.png.*; the first is a link that leads nowhere"):
        parts_of(own, tmp_path)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [(("1,5", "2,0", "3"), "labels such as '1,5' are numbers with a comma"), (("1.5", "2.0"), ""), (("a,b", "2"), "")],
)
def test_numbers_with_a_comma_are_told(tmp_path: Path, labels: tuple[str, ...], expected: str) -> None:
    rows = "\n".join(json.dumps({"image": f"{row}.png", "label": labels[row % len(labels)]}) for row in range(12))
    note = note_of(tmp_path, rows)
    assert expected in note if expected else "with a comma" not in note


def test_a_column_of_numbers_with_a_comma_is_told_before_it_is_read(tmp_path: Path) -> None:
    """A class for each image has no split: what was taken for this must say why."""
    rows = "".join(f'{row}.png,"0,{row + 10}"\n' for row in range(12))
    for row in range(12):
        picture(tmp_path / f"{row}.png", row)
    (tmp_path / "t.csv").write_text("image,score\n" + rows)
    line = "values such as '0,10' are numbers with a comma: with points they can be predicted"
    assert line in guess(tmp_path).remarks


def test_folders_around_the_same_classes_are_told(tmp_path: Path) -> None:
    """Folds and sessions: each class counted once for each of them, without a word."""

    def note(root: Path) -> str:
        originals = originals_from(OwnBenchmark.model_validate(guess(root).values), root / "benchmark.toml")
        assert originals.parts is not None
        return originals.parts(root).note

    for folder in ("fold1", "fold2"):
        for name in ("cat", "dog"):
            for number in range(4):
                picture(tmp_path / "folds" / folder / name / f"{number}.png", number)
                picture(tmp_path / "kinds" / folder / f"{folder}-{name}" / f"{number}.png", number)
    assert "fold1/cat and fold2/cat are classes of their own" in note(tmp_path / "folds")
    assert note(tmp_path / "kinds") == ""


def test_a_torn_row_of_corrections_leaves_out_no_image(tmp_path: Path) -> None:
    """A row that ends before its correction was one of an image that is left out."""
    for number in range(12):
        picture(tmp_path / f"{number}.png", number)
    (tmp_path / "t.csv").write_text(labelled("a", "b"))
    own = OwnBenchmark.model_validate(
        {"benchmark": {"id": "a"}, "data": {"kind": "table", "table": "t.csv", "corrections": "c.csv"}}
    )
    for row, note in (("0.png,a,", "1 image left out by corrections"), ("0.png,a,b", "1 label corrected")):
        (tmp_path / "c.csv").write_text(f"file,label,correction\n{row}\n")
        assert note in parts_of(own, tmp_path).note
    (tmp_path / "c.csv").write_text("file,label,correction\n0.png,a,a\n")
    assert "corrected" not in parts_of(own, tmp_path).note  # a label that stays is none
    (tmp_path / "c.csv").write_text("file,label,correction\n0.png,a\n")
    with pytest.raises(DataError, match=r"c\.csv, line 2: field 'correction' is missing, expected a class"):
        parts_of(own, tmp_path)


def test_files_in_other_code_points_are_named_so(tmp_path: Path) -> None:
    for at in range(6):
        Image.new("RGB", (8, 8)).save(tmp_path / f"e\u0301{at}.png")
    (tmp_path / "labels.csv").write_text(
        "image,label\n" + "".join(f"\u00e9{at}.png,{at % 2}\n" for at in range(6)), encoding="utf-8"
    )
    own = OwnBenchmark.model_validate(guess(tmp_path).values)
    with pytest.raises(DataError, match=r"there is 'e\\u03010\.png', which looks the same in other code points"):
        originals_from(own, tmp_path / "benchmark.toml").check(tmp_path)
