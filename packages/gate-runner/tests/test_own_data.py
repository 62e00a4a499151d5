"""A benchmark of one's own: every kind of file, what is drawn, what is guessed, and one good line for what is wrong."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gate_runner
from gate_data.data import Data
from gate_data.own import guess, read_benchmark, values_at, write_benchmark
from gate_runner.benchmarks import DataRequest, resolve
from gate_runner.benchmarks.own import own_benchmark, schema
from gate_runner.cli import main
from gate_runner.errors import DataError, MissingExtraError, UsageError
from gate_runner.runs.stored import read_run

COLOURS = {"blue": (20, 40, 220), "green": (30, 200, 40), "red": (220, 30, 20)}


def picture(path: Path, colour: str, seed: int = 0) -> str:
    """A noisy square of a colour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng([seed, len(path.name)]).integers(-20, 20, (16, 16, 3))
    Image.fromarray((np.array(COLOURS[colour]) + noise).clip(0, 255).astype(np.uint8)).save(path)
    return path.name


def folders(root: Path, count: int = 12) -> Path:
    for name in COLOURS:
        for index in range(count):
            picture(root / name / f"{index}.png", name, index)
    return root


def load(path: Path, **request: int) -> Data:
    (benchmark,) = resolve([str(path)])
    benchmark.check_files(path.parent)
    return benchmark.load("file", DataRequest(None, **{"size": 16, **request}))


def toml(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def rows(folder: Path, header: str, lines: list[str]) -> None:
    (folder / "all.csv").write_text("\n".join([header, *lines]) + "\n")


def test_a_folder_of_classes_is_guessed_written_and_run(tmp_path: Path) -> None:
    guessed = guess(folders(tmp_path / "Paint pots"))
    assert guessed.remarks[0] == "3 folders of classes, 36 images"
    path = tmp_path / "Paint pots" / "benchmark.toml"
    write_benchmark(guessed.values, path)
    assert read_benchmark(path).benchmark.id == "paint-pots"
    (result,) = gate_runner.run(str(path), encoder="micro-clip/random", output=tmp_path / "run", show=False)
    assert (result.status, result.name, result.source) == ("ok", "paint-pots", "file"), result.reason
    assert result.headline is not None
    assert result.headline.value > 0.9
    assert result.data["test"] == 6  # a fifth of each class's 12, rounded


def test_imagenets_own_layout_is_splits_and_not_classes(tmp_path: Path) -> None:
    folders(tmp_path / "train")
    folders(tmp_path / "val", 4)
    guessed = guess(tmp_path)
    assert guessed.values["splits"] == {"train": "train", "test": "val"}
    path = tmp_path / "b.toml"
    write_benchmark(guessed.values, path)
    data = load(path)
    assert (len(data.test), len(data.train) + len(data.validation), data.classes) == (12, 36, ("blue", "green", "red"))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["train", "cat"], r"holds train, which look like splits, next to cat"),
        (["val", "test"], r"has val, test but no train folder"),
    ],
)
def test_what_looks_like_splits_but_is_not_whole_is_refused(tmp_path: Path, names: list[str], message: str) -> None:
    for name in names:
        folders(tmp_path / name, 1)
    with pytest.raises(DataError, match=message):
        guess(tmp_path)


def test_groups_stay_on_one_side_and_the_seed_draws(tmp_path: Path) -> None:
    lines = [
        f"{picture(tmp_path / f'{name}{index}.png', name, index)},{name},p{index // 2}"
        for name in COLOURS
        for index in range(16)
    ]
    rows(tmp_path, "file,colour,patient", lines)
    start = '[benchmark]\nid = "a"\n[data]\nkind = "table"\ntable = "all.csv"\nimage = "file"\ntarget = "colour"\n'
    drawn = []
    for seed in (0, 1):
        own = read_benchmark(toml(tmp_path, f'{start}[splits]\ngroup = "patient"\nseed = {seed}\n'))
        from gate_data.own.originals import parts_of

        parts = parts_of(own, tmp_path)
        groups = [{sample.group for sample in split} for split in (parts.train, parts.validation or (), parts.test)]
        assert not groups[0] & groups[1] | groups[0] & groups[2] | groups[1] & groups[2]
        assert all(groups)
        drawn.append(groups)
    assert drawn[0] != drawn[1]


def test_a_table_says_its_splits_and_names_are_shown_in_words(tmp_path: Path) -> None:
    lines = [
        f"{picture(tmp_path / 'p' / f'{name}{index}.png', name, index)},{name},{('fit', 'check', 'score')[index % 3]}"
        for name in COLOURS
        for index in range(6)
    ]
    rows(tmp_path, "image,label,part", lines)
    path = toml(
        tmp_path,
        '[benchmark]\nid = "a"\n[data]\nkind = "table"\ntable = "all.csv"\nroot = "p"\n'
        '[splits]\ncolumn = "part"\ntrain = "fit"\nvalidation = "check"\ntest = "score"\n'
        '[classes.shown]\nred = "a red pot"\n',
    )
    data = load(path)
    assert [len(split) for split in (data.train, data.validation, data.test)] == [6, 6, 6]
    assert data.classes == ("blue", "green", "a red pot")


def test_zero_shot_takes_all_samples_for_the_test(tmp_path: Path) -> None:
    folders(tmp_path / "d", 2)
    path = toml(
        tmp_path,
        '[benchmark]\nid = "z"\ntask = "zero-shot"\n[data]\nkind = "folders"\nroot = "d"\n'
        '[classes]\ntemplates = ["a {} square"]\n',
    )
    assert own_benchmark(path).training["templates"] == ("a {} square",)
    assert len(load(path).test) == 6
    (result,) = gate_runner.run(str(path), encoder="micro-clip", output=tmp_path / "run", show=False)
    assert result.status == "ok", result.reason


def test_questions_values_maps_and_boxes(tmp_path: Path) -> None:
    files = [picture(tmp_path / f"{index}.png", list(COLOURS)[index % 3], index) for index in range(30)]
    for index in range(30):
        Image.fromarray(np.full((16, 16), index % 3, np.uint8)).save(tmp_path / f"m{index}.png")
    rows(tmp_path, "image,label,text", [f"{file},{'yes' if i % 2 else 'no'},is it?" for i, file in enumerate(files)])
    start = '[data]\nkind = "table"\ntable = "all.csv"\n'
    data = load(toml(tmp_path, f'[benchmark]\nid = "q"\ntask = "relational"\n{start}'))
    assert data.classes == ("no", "yes")
    rows(tmp_path, "image,label", [f"{file},m{i}.png" for i, file in enumerate(files)])
    data = load(
        toml(tmp_path, f'[benchmark]\nid = "m"\ntask = "segmentation"\n{start}[classes]\nnames = ["a","b","c"]\n')
    )
    maps = np.asarray(data.train.targets[:])
    assert maps.shape[1:] == (32, 32)
    assert set(np.unique(maps)) == {0, 1, 2}
    coco = {
        "images": [{"id": i, "file_name": file, "width": 16, "height": 16} for i, file in enumerate(files)],
        "categories": [{"id": 7, "name": "left"}, {"id": 9, "name": "right"}],
        "annotations": [
            {"id": 2 * i + k, "image_id": i, "category_id": 7 + 2 * k, "bbox": [8 * k, 0, 8, 16], "iscrowd": 0}
            for i in range(30)
            for k in (0, 1)
        ],
    }
    (tmp_path / "boxes.json").write_text(json.dumps(coco))
    data = load(toml(tmp_path, '[benchmark]\nid = "b"\n[data]\nkind = "coco"\ntable = "boxes.json"\n'))
    assert data.classes == ("left", "right")
    assert len(data.train) + len(data.validation) + len(data.test) == 60


def test_a_pair_has_two_pictures_and_two_captions(tmp_path: Path) -> None:
    lines = []
    for index in range(4):
        first, second = (picture(tmp_path / f"{index}{name}.png", name, index) for name in ("red", "blue"))
        lines.append(f"{first},{second},a red pot,a blue pot")
    rows(tmp_path, "image,image2,text,text2", lines)
    path = toml(tmp_path, '[benchmark]\nid = "p"\ntask = "pair-scoring"\n[data]\nkind = "table"\ntable = "all.csv"\n')
    (result,) = gate_runner.run(str(path), encoder="micro-clip", output=tmp_path / "run", show=False)
    assert result.status == "ok", result.reason
    assert [score.metric for score in result.scores] == ["group", "text", "image"]


WRONG: dict[str, tuple[str, str]] = {
    "nearest": ('[benchmark]\nid = "a"\ntaks = "x"\n[data]\nkind = "folders"\n', r"line 3: no field .*; nearest: task"),
    "type": ('[benchmark]\nid = "a"\n[data]\nkind = "folder"\n', r"line 4: field 'data.kind' is 'folder'"),
    "range": ('[benchmark]\nid = "a"\n[data]\nkind = "folders"\n[splits]\ntest_share = 2\n', r"line 6: .*less than 1"),
    "missing": ('[benchmark]\ntitle = "a"\n[data]\nkind = "folders"\n', r"line 1: field 'benchmark.id' is missing"),
    "toml": ("[benchmark\n", r"is not TOML: .*line 1"),
    "id": ('[benchmark]\nid = "../a"\n[data]\nkind = "folders"\n', r"line 2: field 'benchmark.id'"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_told_with_its_line(tmp_path: Path, name: str) -> None:
    text, message = WRONG[name]
    with pytest.raises(DataError, match=message):
        read_benchmark(toml(tmp_path, text))


def test_wrong_data_are_told_before_anything_runs(tmp_path: Path) -> None:
    files = [picture(tmp_path / f"{i}.png", "red", i) for i in range(8)]
    start = '[benchmark]\nid = "a"\n[data]\nkind = "table"\ntable = "all.csv"\n'
    path = toml(tmp_path, start)
    cases: list[tuple[Callable[[int, str], str], str]] = [
        (lambda i, file: f"no{file},{i % 2}", r"8 of 8 files are not there: .*no0\.png .*line 2\).* …"),
        (lambda i, file: f"{file},{'Cat' if i % 2 else 'cat'}", r"classes 'Cat' and 'cat' differ only in their case"),
        (lambda i, file: f"{file},one", r"one class only \(one\)"),
        (lambda i, file: f"../{file},{i % 2}", r"line 2: field 'image' is '\.\./0\.png', expected a path inside"),
    ]
    for line, message in cases:
        rows(tmp_path, "image,label", [line(i, file) for i, file in enumerate(files)])
        with pytest.raises(DataError, match=message):
            load(path)
    rows(
        tmp_path,
        "image,label,part",
        [f"{file},{i % 2 if i < 4 else 'new'},{'a' if i < 4 else 'b'}" for i, file in enumerate(files)],
    )
    split = f'{start}[splits]\ncolumn = "part"\ntrain = "a"\ntest = "b"\n'
    with pytest.raises(DataError, match="classes in test that training lacks: new"):
        load(toml(tmp_path, split))
    rows(
        tmp_path,
        "image,label,part,g",
        [f"{file},{i % 2},{'a' if i < 4 else 'b'},{i % 4}" for i, file in enumerate(files)],
    )
    with pytest.raises(DataError, match=r"4 groups are in train and in test: 0, 1, 2, 3"):
        load(toml(tmp_path, f'{split}group = "g"\n'))


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    path = toml(tmp_path, "mine\n")
    with pytest.raises(DataError, match="exists; it was not changed"):
        write_benchmark({"benchmark": {"id": "a"}}, path)
    assert path.read_text() == "mine\n"


def test_the_schema_says_what_the_reader_takes() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    good = tomllib.loads('[benchmark]\nid = "a"\n[data]\nkind = "folders"\n')
    jsonschema.validate(good, schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**good, "dota": {}}, schema())


def captioned(tmp_path: Path, captions: Callable[[int], int]) -> None:
    names = list(COLOURS)
    files = [picture(tmp_path / f"{index}.png", names[index % 3], index) for index in range(30)]
    lines = [
        f"{file},a {names[i % 3]} square {'again ' * number}of {i}"
        for i, file in enumerate(files)
        for number in range(captions(i))
    ]
    rows(tmp_path, "image,caption", lines)


def test_pictures_and_captions_are_guessed_and_matched_both_ways(tmp_path: Path) -> None:
    captioned(tmp_path, lambda index: 2)
    guessed = guess(tmp_path)
    assert guessed.values["benchmark"]["task"] == "image-text"
    path = tmp_path / "benchmark.toml"
    write_benchmark(guessed.values, path)
    data = load(path)
    assert [len(split.texts or ()) for split in (data.train, data.validation, data.test)] == [44, 4, 12]
    texts = data.test.texts or ()
    assert all(texts[2 * row + 1].replace("again ", "") == texts[2 * row] for row in range(6))
    (result,) = gate_runner.run(
        str(path), output=tmp_path / "run", recipe_fields={"steps": 2}, show=False, encoder="micro-clip"
    )
    assert result.status == "ok", result.reason
    metrics = {score.metric: score.chance for score in result.scores}
    assert {"i2t_r@1", "i2t_r@5", "i2t_r@10", "t2i_r@1", "t2i_r@5", "t2i_r@10"} < set(metrics)
    assert metrics["i2t_r@1"] == pytest.approx(1 / 6)


def test_captions_that_are_not_equally_many_are_cut_and_told(tmp_path: Path) -> None:
    captioned(tmp_path, lambda index: 1 + index % 3)
    path = toml(
        tmp_path,
        '[benchmark]\nid = "c"\ntask = "image-text"\n[data]\nkind = "table"\ntable = "all.csv"\ntext = "caption"\n',
    )
    data = load(path)
    assert len(data.test.texts or ()) == len(data.test)
    assert data.note == "the first caption of each image, of 1 to 3"
    rows(tmp_path, "image,caption,part", ["0.png,a,train", "0.png,b,test", "1.png,c,train"])
    with pytest.raises(DataError, match=r"line 3: .*0\.png is in another split or group than at .*line 2"):
        load(toml(tmp_path, path.read_text() + '[splits]\ncolumn = "part"\n'))


def coco_captions(path: Path, files: list[str], each: int = 2) -> None:
    content = {
        "images": [{"id": 10 + i, "file_name": file} for i, file in enumerate(files)],
        "annotations": [
            {"id": each * i + k, "image_id": 10 + i, "caption": f"a square {'again ' * k}of {Path(file).stem}"}
            for i, file in enumerate(files)
            for k in range(each)
        ],
    }
    path.write_text(json.dumps(content))


def test_cocos_captions_are_guessed_and_matched_both_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine"
    files = [picture(mine / "images" / f"{index}.png", list(COLOURS)[index % 3], index) for index in range(30)]
    coco_captions(mine / "captions.json", files)
    words = ["run", "--data", str(mine), "--output", str(tmp_path / "run"), "--set", "steps=2", "--isolate", "none"]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    assert "captions.json: COCO captions, to be matched with their images" in capsys.readouterr().err
    (result,) = read_run(tmp_path / "run").results
    assert (result.task, result.scores[0].chance) == ("image-text", 1 / 6)
    data = load(mine / "benchmark.toml")
    texts = data.test.texts or ()
    for row, (file,) in enumerate(data.test.images.files):
        assert texts[2 * row : 2 * row + 2] == (
            f"a square of {Path(file).stem}",
            f"a square again of {Path(file).stem}",
        )


def test_a_file_of_captions_for_each_split(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    files = [picture(mine / f"{index}.png", list(COLOURS)[index % 3], index) for index in range(30)]
    coco_captions(mine / "captions_train2017.json", files[:20])
    coco_captions(mine / "captions_val2017.json", files[20:])
    guessed = guess(mine)
    path = tmp_path / "elsewhere.toml"
    write_benchmark(values_at(guessed.values, mine, tmp_path), path)
    data = load(path)
    named = [{Path(file).name for (file,) in split.images.files} for split in (data.train, data.validation, data.test)]
    assert named[2] == set(files[20:])
    assert [len(names) for names in named] == [18, 2, 10]
    coco_captions(mine / "captions_more.json", files)
    with pytest.raises(DataError, match=r"several COCO files: captions_more\.json, captions_train2017\.json"):
        guess(mine)


def test_captions_of_no_picture_are_told(tmp_path: Path) -> None:
    file = picture(tmp_path / "a.png", "red")
    path = toml(
        tmp_path, '[benchmark]\nid = "c"\ntask = "image-text"\n[data]\nkind = "coco"\ntable = "captions.json"\n'
    )
    for values, message in (
        ({"image_id": 3, "caption": "a"}, r"entry 1: field 'image_id' is '3', expected the id of an image"),
        ({"image_id": 10, "caption": " "}, r"entry 1: field 'caption' is ' ', expected text"),
    ):
        coco_captions(tmp_path / "captions.json", [file], 1)
        content = json.loads((tmp_path / "captions.json").read_text())
        content["annotations"].append(values)
        (tmp_path / "captions.json").write_text(json.dumps(content))
        with pytest.raises(DataError, match=message):
            load(path)
    coco_captions(tmp_path / "captions.json", ["../a.png"], 1)
    with pytest.raises(DataError, match=r"'\.\./a\.png', expected a path inside"):
        load(path)


def boxes(tmp_path: Path, count: int = 30) -> None:
    files = [picture(tmp_path / "images" / f"{index}.png", list(COLOURS)[index % 3], index) for index in range(count)]
    coco = {
        "images": [{"id": i, "file_name": file, "width": 16, "height": 16} for i, file in enumerate(files)],
        "categories": [{"id": 7, "name": "left"}, {"id": 9, "name": "right"}],
        "annotations": [
            {"id": 2 * i + k, "image_id": i, "category_id": 7 + 2 * k, "bbox": [8 * k, 0, 8, 16], "iscrowd": 0}
            for i in range(count)
            for k in (0, 1)
        ],
    }
    (tmp_path / "boxes.json").write_text(json.dumps(coco))


def test_boxes_are_guessed_and_found(tmp_path: Path) -> None:
    pytest.importorskip("faster_coco_eval")
    boxes(tmp_path)
    guessed = guess(tmp_path)
    assert guessed.values["benchmark"]["task"] == "detection"
    assert guessed.values["data"]["root"] == "images"
    path = tmp_path / "benchmark.toml"
    write_benchmark(guessed.values, path)
    data = load(path)
    files = [set(split.images.files) for split in (data.train, data.validation, data.test)]
    assert [len(split_files) for split_files in files] == [22, 2, 6]
    assert not files[0] & files[1] | files[0] & files[2] | files[1] & files[2]
    assert data.classes == ("left", "right")
    (result,) = gate_runner.run(str(path), output=tmp_path / "run", recipe_fields={"steps": 2}, show=False)
    assert result.status == "ok", result.reason
    assert [score.metric for score in result.scores] == ["map", "ap50", "ap75"]


def test_wrong_boxes_are_told(tmp_path: Path) -> None:
    boxes(tmp_path, 2)
    start = '[benchmark]\nid = "b"\ntask = "detection"\n[data]\n'
    for text, message in (
        ('kind = "folders"\n', 'needs kind = "coco", "voc" or "yolo" under'),
        ('kind = "coco"\nroot = "images"\n', "'data.table' is missing"),
        ('kind = "coco"\ntable = "boxes.json"\n', "2 of 2 images are not in"),
        ('kind = "coco"\ntable = "boxes.json"\nroot = "images"\n[splits]\ntest = "boxes.json"\n', "but no train"),
        ('kind = "coco"\ntable = "boxes.json"\nroot = "images"\n[splits]\ngroup = "g"\n', "group and column are of"),
        ('kind = "coco"\ntable = "boxes.json"\nroot = "images"\n', "1 image is too few to draw validation from"),
    ):
        with pytest.raises(DataError, match=message):
            load(toml(tmp_path, start + text))


@pytest.mark.parametrize(
    ("header", "line", "task"),
    [
        ("image_0,image_1,caption_0,caption_1", "0.png,1.png,a cup,no cup", "pair-scoring"),
        ("image,question,answer", "0.png,what?,a cup", "relational"),
        ("image,tags", "0.png,a|b", "multi-label"),
        ("image,caption", "0.png,a cup", "image-text"),
        ("image,caption,label", "0.png,a cup,cup", "image-classification"),
        ("clip,label", "0.mp4,run", "video-classification"),
        ("image,label", "0.png,m0.png", "segmentation"),
    ],
)
def test_what_a_table_is_for_is_seen_from_its_columns(tmp_path: Path, header: str, line: str, task: str) -> None:
    rows(tmp_path, header, [line])
    guessed = guess(tmp_path)
    assert guessed.values["benchmark"]["task"] == task
    write_benchmark(guessed.values, tmp_path / "b.toml")
    assert read_benchmark(tmp_path / "b.toml").benchmark.task == task  # all its fields exist
    named = {value for key, value in guessed.values["data"].items() if key in ("image", "image2", "text", "text2")}
    assert named <= set(header.split(","))


def test_pictures_need_nothing_that_reads_videos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)  # as where the extra is not installed
    folders(tmp_path)
    text = '[benchmark]\nid = "p"\n[data]\nkind = "folders"\n'
    assert len(load(toml(tmp_path, text)).train) == 27
    for path in tmp_path.glob("*/*.png"):
        path.rename(path.with_suffix(".mp4"))
    with pytest.raises(MissingExtraError, match="videos need PyAV"):
        _ = load(toml(tmp_path, text.replace('"p"', '"p"\ntask = "video-classification"'))).train.images[0:1]


def test_clips_in_folders_and_in_a_table(tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    lines = []
    for name, colour in (("fade", 200), ("stay", 40)):
        for index in range(6):
            path = tmp_path / "clips" / name / f"{index}.mp4"
            path.parent.mkdir(parents=True, exist_ok=True)
            with av.open(str(path), "w") as container:
                stream = container.add_stream("mpeg4", rate=8)
                stream.width = stream.height = 32
                for frame in range(8):
                    pixels = np.full((32, 32, 3), colour - 10 * frame * (name == "fade"), np.uint8)
                    container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
                container.mux(stream.encode())
            lines.append(f"{name}/{index}.mp4,{name}")
    guessed = guess(tmp_path / "clips")
    assert guessed.values["benchmark"]["task"] == "video-classification"
    write_benchmark(guessed.values, tmp_path / "clips" / "b.toml")
    data = load(tmp_path / "clips" / "b.toml")
    assert data.test.images[:].shape[1:] == (8, 3, 16, 16)
    (tmp_path / "clips" / "all.csv").write_text("\n".join(["clip,label", *lines]) + "\n")
    guessed = guess(tmp_path / "clips")
    write_benchmark(guessed.values, tmp_path / "clips" / "c.toml")
    (result,) = gate_runner.run(
        str(tmp_path / "clips" / "c.toml"), output=tmp_path / "run", recipe_fields={"steps": 2}, show=False
    )
    assert result.status == "ok", result.reason


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--encoder", "no-such"], "unknown encoder 'no-such'"),
        (["--encoder", "open_clip:no-such/random"], "unknown open_clip model 'no-such'"),
        (["--setting", "no_such=1"], "unknown setting 'no_such'"),
    ],
)
def test_a_folder_stays_as_it_was_if_the_encoder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    folders(tmp_path / "d")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit):
        main(["run", "--data", str(tmp_path / "d"), "--output", str(tmp_path / "o"), *words])
    assert message in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_what_cannot_be_read_is_left_out_and_listed_on_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folders(tmp_path / "d")
    broken = [tmp_path / "d" / "red" / f"{index}.png" for index in range(3)]
    for path in broken:
        path.write_text("no image")
    path = toml(tmp_path, '[benchmark]\nid = "s"\n[data]\nkind = "folders"\nroot = "d"\n')
    (result,) = gate_runner.run(str(path), output=tmp_path / "a", show=False)
    assert result.status == "failed"
    with pytest.raises(UsageError, match="holds a run without skip_unreadable, not with skip_unreadable True; choose"):
        gate_runner.run(str(path), output=tmp_path / "a", skip_unreadable=True, show=False)
    (result,) = gate_runner.run(str(path), output=tmp_path / "b", skip_unreadable=True, show=False)
    assert result.status == "ok", result.reason
    assert sum(result.data[name] for name in ("train", "validation", "test")) == 33
    assert "cannot be read: " in result.note
    assert all(str(file) in caplog.text for file in broken)
    assert "predicted: " in gate_runner.report(
        tmp_path / "b", pictures=1, data_root=tmp_path
    )  # the same images are left out there
    boxes(tmp_path)
    (tmp_path / "images" / "7.png").write_text("no image")
    data = resolve([str(toml(tmp_path, BOXES))])[0].load("file", DataRequest(None, size=16, skip_unreadable=True))
    assert len(data.train) + len(data.validation) + len(data.test) == 29
    assert "7.png" in data.note


def test_results_and_reports_name_no_folder_above_the_data(tmp_path: Path) -> None:
    names = [picture(tmp_path / "d" / f"{name}{index}.png", name, index) for name in COLOURS for index in range(12)]
    lines = [
        f"d/{name},{name[:-5].rstrip('0123456789')},{'train' if at % 4 else 'test'}" for at, name in enumerate(names)
    ]
    rows(tmp_path, "file,label,split", [*lines, "d/blue0.png,blue,train"])
    path = toml(
        tmp_path,
        '[benchmark]\nid = "t"\n[data]\nkind = "table"\ntable = "all.csv"\nimage = "file"\n'
        '[splits]\ncolumn = "split"\ntrain = "train"\ntest = "test"\n',
    )
    (run,) = gate_runner.run(str(path), output=tmp_path / "a", limit=20, show=False)
    assert "1 file is tested on and trained or validated on, such as d/blue0.png" in run.note
    assert str(tmp_path) not in gate_runner.report(tmp_path / "a")
    (tmp_path / "d" / names[1]).write_text("no image")
    (failed,) = gate_runner.run(str(path), output=tmp_path / "b", show=False)
    assert f"d/{names[1]} cannot be read as an image" in failed.reason
    for folder in ("a", "b"):
        (stored,) = (tmp_path / folder / "results").iterdir()
        assert str(tmp_path) not in stored.read_text()


BOXES = '[benchmark]\nid = "b"\ntask = "detection"\n[data]\nkind = "coco"\ntable = "boxes.json"\nroot = "images"\n'


def test_the_command_takes_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gate_runner.cli import main

    folders(tmp_path / "mine")
    words = ["run", "--data", str(tmp_path / "mine"), "--output", str(tmp_path / "run"), "--isolate", "none"]
    for _ in range(2):  # the second time with the file that the first wrote
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
    printed = capsys.readouterr()
    assert printed.err.count("3 folders of classes, 36 images") == 1
    assert "mine" in printed.out
    assert (tmp_path / "mine" / "benchmark.toml").is_file()
    with pytest.raises(SystemExit):
        main(["run"])
    assert "a folder of your own with --data" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["new", str(tmp_path / "mine"), "--output", str(tmp_path / "elsewhere.toml")])
    assert load(tmp_path / "elsewhere.toml").classes == ("blue", "green", "red")


def test_a_folder_or_a_table_in_a_files_place_is_told_the_command(tmp_path: Path) -> None:
    rows(tmp_path, "image,label", ["a.png,red"])
    for wrong in (tmp_path, tmp_path / "all.csv"):
        with pytest.raises(UsageError, match=f"no benchmark's file .*try: gate-runner run --data {tmp_path}"):
            resolve([str(wrong)])
    with pytest.raises(UsageError, match=f"{tmp_path / 'nothing'} does not exist; expected a pack, a benchmark or"):
        resolve([str(tmp_path / "nothing")])


@pytest.mark.parametrize("name", ["cifar100", "mini-gate", "small", "chexpert"])
def test_a_known_data_sets_name_is_refused(tmp_path: Path, name: str) -> None:
    path = toml(tmp_path, f'[benchmark]\nid = "{name}"\n[data]\nkind = "folders"\n')
    with pytest.raises(DataError, match=rf"mine.toml, line 2: field 'benchmark.id' is '{name}', .* e.g. 'my-{name}'"):
        resolve([str(path)])


def test_a_folder_called_like_a_known_data_set_is_renamed(tmp_path: Path) -> None:
    guessed = guess(folders(tmp_path / "CIFAR100"))
    assert guessed.values["benchmark"]["id"] == "my-cifar100"
    assert "called my-cifar100: cifar100 is the name of a known data set" in guessed.remarks[-1]
    path = tmp_path / "CIFAR100" / "benchmark.toml"
    write_benchmark(guessed.values, path)
    assert own_benchmark(path).id == "my-cifar100"


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    text = '[benchmark]\nid = "a"\n[data]\nkind = "folders"\n'
    (tmp_path / "other").mkdir()
    paths = [toml(tmp_path, text), toml(tmp_path / "other", text)]
    assert len(resolve([str(paths[0]), str(paths[0])])) == 1
    with pytest.raises(UsageError, match=r"other/mine.toml is called 'a', as .*/mine.toml is: rename one of them"):
        resolve([str(path) for path in paths])


def test_a_dry_run_fetches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: pytest.fail("it was fetched"))
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["new", str(tmp_path / "set"), "--fetch", "wds/vtab/cifar10", "--dry-run"])
    assert "clip-benchmark/wds_vtab-cifar10 on the hub would be fetched into" in capsys.readouterr().out
    assert not (tmp_path / "set").exists()
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["new", str(tmp_path / "set"), "--fetch", "cifar10", "--dry-run"])
    assert "expected wds/NAME" in capsys.readouterr().err


def test_two_who_look_at_a_folder_at_once_take_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second was told to remove the file that the first had just written."""
    from gate_runner.benchmarks import own
    from gate_runner.commands.run import own_folder

    for name in ("cat", "dog"):
        for number in range(6):
            path = tmp_path / name / f"{number}.png"
            path.parent.mkdir(exist_ok=True)
            Image.new("RGB", (8, 8), (number, len(name), 0)).save(path)
    written = own.write_own

    def another_first(values: Any, path: Path) -> None:
        written(values, path)
        written(values, path)

    monkeypatch.setattr(own, "write_own", another_first)
    assert own_folder(tmp_path) == str(tmp_path / "benchmark.toml")
    (tmp_path / "benchmark.toml").unlink()
    monkeypatch.setattr(own, "write_own", lambda values, path: (path.write_text("other"), written(values, path)))
    with pytest.raises(DataError, match="exists; it was not changed"):
        own_folder(tmp_path)
