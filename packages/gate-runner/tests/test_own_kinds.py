"""Kinds of a user's own labels, each from a folder to a score, and what is refused before anything is encoded."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gate_runner
from gate_data.own import guess, originals_of, read_benchmark, summary, write_benchmark
from gate_runner.benchmarks.own import own_benchmark
from gate_runner.cli import main
from gate_runner.errors import DataError
from gate_runner.runs.results import Result
from knowledge_prompts.class_words import ClassWords


def shade(path: Path, level: int, seed: int = 0) -> str:
    """A noisy square of a grey."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng([seed, level]).integers(-8, 8, (16, 16, 3))
    Image.fromarray((level + noise).clip(0, 255).astype(np.uint8)).save(path)
    return path.name


def table(folder: Path, header: str, lines: list[str], task: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "all.csv").write_text("\n".join([header, *lines]) + "\n")
    path = folder / "benchmark.toml"
    write_benchmark(guess(folder).values, path)
    assert not task or read_benchmark(path).benchmark.task == task
    return path


def run(path: Path, **options: object) -> Result:
    (result,) = gate_runner.run(str(path), encoder="micro-clip", output=path.parent / "run", show=False, **options)  # type: ignore[arg-type]
    assert result.status == "ok", result.reason
    return result


def test_numbers_far_from_zero_are_predicted_far_better_than_chance(tmp_path: Path) -> None:
    levels = [int(level) for level in np.random.default_rng(0).integers(10, 245, 60)]
    lines = [f"{shade(tmp_path / f'{row}.png', level, row)},{1000 + level / 10}" for row, level in enumerate(levels)]
    result = run(table(tmp_path, "image,price", lines, "regression"))
    scores = {score.metric: score for score in result.scores}
    assert list(scores) == ["mae", "rmse", "r2", "spearman"]
    assert scores["mae"].chance is not None
    assert scores["mae"].value < 0.5 * scores["mae"].chance
    assert scores["r2"].value > 0.5
    assert scores["spearman"].low < scores["spearman"].value <= 1


def test_rare_tags_are_dealt_to_both_sides_and_lonely_ones_are_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What every long-tailed set of tags has: one with two positives, one with one."""
    lines = []
    for row in range(60):
        tags = ["dark" if row % 2 else "light", *(["rare"] if row in (3, 40) else []), *(["once"] if row == 7 else [])]
        lines.append(f"{shade(tmp_path / f'{row}.png', 40 if row % 2 else 200, row)},{'|'.join(tags)}")
    path = table(tmp_path, "image,tags", lines, "multi-label")
    parts = originals_of(path).parts
    assert parts is not None
    lists = parts(tmp_path)
    index = lists.classes.index("rare")
    assert sorted(sum(sample.target[index] for sample in split) for split in (lists.train, lists.test)) in (
        [0, 2],
        [1, 1],
    )
    dark = [
        np.mean([sample.target[lists.classes.index("dark")] for sample in split]) for split in (lists.train, lists.test)
    ]
    assert dark == pytest.approx([0.5, 0.5], abs=0.1)
    assert any("no positive in test: once" in line for line in summary(read_benchmark(path), tmp_path))
    with caplog.at_level(logging.WARNING):
        result = run(path, recipe_fields={"steps": 60, "validate_every": 20})
    assert "once" in result.training["left_out"]
    assert "are left out of the metrics: once" in caplog.text
    assert result.training["per_class"]["once"]["roc_auc"] is None
    assert result.headline is not None
    assert 0 < result.headline.value <= 1


def test_each_class_has_its_figures_in_the_result_and_the_report(tmp_path: Path) -> None:
    lines = [
        f"{shade(tmp_path / f'{name}{row}.png', level, row)},{name}"
        for name, level in (("dark", 30), ("grey", 120), ("light", 220))
        for row in range(15)
    ]
    path = table(tmp_path, "image,label", lines)
    result = run(path)
    training = result.training["by_class"]
    assert [row["class"] for row in training["rows"]] == ["dark", "grey", "light"]
    assert sum(row["support"] for row in training["rows"]) == result.data["test"]
    assert result.headline is not None
    assert training["scores"]["micro_f1"]["value"] == pytest.approx(result.headline.value)
    assert [score.metric for score in result.scores] == ["acc@1", "macro_f1"]
    text = gate_runner.report(path.parent / "run")
    assert "macro F1" in text
    assert ">grey<" in text


WRONG = {
    'metrics = ["f1"]': r"line 4: unknown metric of image-classification 'f1'; nearest: macro_f1|micro_f1",
    'metrics = ["miou"]': r"unknown metric of image-classification 'miou'",
    "[training]\nepochs = 3": r"unknown field of a recipe 'epochs'",
    "[training]\nhead = 'ridge'": r"head is for benchmarks of class maps .*, not for image-classification",
    "[training]\nstpes = 3": r"unknown field of a recipe 'stpes'; nearest: steps",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_metrics_and_recipes_are_looked_at_before_anything_is_encoded(tmp_path: Path, wrong: str) -> None:
    about = '[benchmark]\nid = "a"\n'
    path = tmp_path / "a.toml"
    own = f"\n{wrong}\n[data]\n" if wrong.startswith("metrics") else "\n[data]\n"
    path.write_text(about + own + 'kind = "folders"\n' + ("" if wrong.startswith("metrics") else wrong + "\n"))
    with pytest.raises(DataError, match=WRONG[wrong]):
        own_benchmark(path)


def classed(folder: Path) -> Path:
    for name, count in (("ship", 40), ("shp", 1), ("truck", 40)):
        for row in range(count):
            shade(folder / name / f"{row}.png", 60 + row + (100 if name == "truck" else 0), row)
    return folder


def command(*arguments: object) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    return int(left.value.code or 0)


def new(*arguments: object) -> int:
    return command("new", *arguments)


def test_new_says_what_is_doubtful_and_writes_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = classed(tmp_path / "mine")
    (mine / "ship" / "a.avifs").touch()
    (mine / "ship" / "b.jxl").touch()
    (mine / "truck" / "0.png").write_bytes((mine / "ship" / "3.png").read_bytes())
    assert new(mine, "--dry-run") == 0
    out = capsys.readouterr().out
    assert not (mine / "benchmark.toml").exists()
    assert "3 classes (all, of them test): ship 40" in out
    assert "1 class has one image: shp" in out
    assert "labels 'shp' (1) and 'ship' (40) are nearly equal" in out
    assert "2 images lie there with two labels" in out  # that one, and shp's, which is a ship
    assert ".jxl 1" in out
    assert 'kind = "folders"' in out
    (mine / "empty").mkdir()
    assert new(mine) == 2
    assert not (mine / "benchmark.toml").exists()
    (mine / "empty").rmdir()
    assert new(mine) == 0
    capsys.readouterr()
    assert new(mine) == 2
    assert "exists; it was not changed: remove it, or give another name with --output" in capsys.readouterr().err


def test_files_that_are_not_there_are_skipped_where_that_is_asked(tmp_path: Path) -> None:
    lines = [f"{shade(tmp_path / f'{row}.png', 30 if row % 2 else 200, row)},{row % 2}" for row in range(30)]
    path = table(tmp_path, "image,label", [*lines, "nothere.jpg,1"])
    with pytest.raises(DataError, match=r"1 of 31 files are not there"):
        gate_runner.run(str(path), output=tmp_path / "refused", show=False)
    result = run(path, skip_unreadable=True)
    assert "1 file is not there, and left out: nothere.jpg" in result.note
    assert result.data["train"] + result.data["validation"] + result.data["test"] == 30


def test_class_texts_that_an_encoder_does_not_tell_apart_are_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, level in (("airplane", 30), ("automobile", 120), ("truck", 220)):
        for row in range(8):
            shade(tmp_path / "mine" / name / f"{row}.png", level, row)
    with caplog.at_level(logging.WARNING):
        done = gate_runner.adapt(
            tmp_path / "mine", "zeroshot", words=ClassWords(("imagenet",)), output=tmp_path / "run"
        )
    (result,) = done.results
    assert result.training["prompts_encoded"] > 3  # 80 templates for each, but equal texts are encoded once
    assert "class texts are hardly distinguished by this encoder" in caplog.text


def test_features_in_a_file_and_predictions_scored_by_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine"
    lines = [
        f"{shade(mine / 'img' / f'{name}{row}.png', level, row)},{name}"
        for name, level in (("dark", 30), ("light", 220))
        for row in range(10)
    ]
    (mine / "labels.csv").write_text("\n".join(["image,label", *lines]))
    for form in ("npz", "parquet"):
        assert command("adapt", "embed", mine, "--encoder", "micro-clip", "--output", tmp_path / f"x.{form}") == 0
        assert f"x.{form}, 20 images" in capsys.readouterr().out
    arrays = np.load(tmp_path / "x.npz")
    assert arrays["features"].shape == (20, 128)
    parquet = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "x.parquet").to_pydict()
    assert parquet["labels"] == arrays["labels"].tolist()
    np.testing.assert_array_equal(np.array(parquet["features"], np.float32), arrays["features"])
    assert all(Path(file).stem.startswith(label) for file, label in zip(arrays["files"], arrays["labels"], strict=True))
    pixels = [np.asarray(Image.open(file)) for file in arrays["files"][:2]]
    from vision_features import load_encoder

    encoder = load_encoder("micro-clip")
    import torch
    from torch.nn import functional as F

    side = encoder.image_size
    shown = torch.stack(
        [torch.from_numpy(np.array(Image.fromarray(pixel).resize((side, side), 3))) for pixel in pixels]
    )
    alone = encoder.encode_image(shown.permute(0, 3, 1, 2))
    assert float(F.cosine_similarity(alone, torch.from_numpy(arrays["features"][:2])).min()) > 0.999

    gate_runner.adapt(mine, encoder="micro-clip", output=tmp_path / "run", save=tmp_path / "head")
    predict = ("adapt", "predict", tmp_path / "head", "--labels", mine / "labels.csv")
    assert command(*predict, "--output", tmp_path / "p.csv") == 0
    out = capsys.readouterr().out
    rows = (tmp_path / "p.csv").read_text().splitlines()[1:]
    right = np.mean([Path(row.split(",")[0]).stem.startswith(row.split(",")[1]) for row in rows])
    assert f"accuracy {right:.4f} [" in out
    assert "macro F1" in out
    assert "p.csv, 20 images" in out
    assert command(*predict[:-1], mine, "--output", tmp_path / "p2.csv") == 0  # the folder, as `adapt probe` takes it
    assert f"accuracy {right:.4f} [" in capsys.readouterr().out
    table = (mine / "labels.csv").read_bytes()
    assert command(*predict, "--output", mine / "labels.csv") == 2
    assert "labels.csv is read here, as labels" in capsys.readouterr().err
    assert (mine / "labels.csv").read_bytes() == table
    assert command("export", tmp_path / "head", "--to", "csv") == 2
    assert "gate-runner adapt export" in capsys.readouterr().err
    (mine / "labels.csv").write_text("image,label\nimg/dark0.png,zebra\nimg/light0.png,dark\n")
    assert command(*predict, "--output", tmp_path / "p3.csv") == 2
    assert not (tmp_path / "p3.csv").exists()
    assert "labels that the head does not know: zebra" in capsys.readouterr().err


def test_folders_in_folders_are_groups_of_classes_and_groups_are_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine"
    for name, level in (("dark/black", 20), ("dark/grey", 60), ("light/pale", 190), ("light/white", 240)):
        for number in range(12):
            shade(mine / name / f"{number}.png", level, number)
    assert new(mine) == 0
    assert "4 folders of classes, 48 images" in capsys.readouterr().out
    (result,) = gate_runner.run(str(mine / "benchmark.toml"), output=tmp_path / "run", show=False)
    about = result.training["by_class"]
    assert {row["class"] for row in about["rows"]} == {"dark/black", "dark/grey", "light/pale", "light/white"}
    (level,) = about["levels"]
    assert level["groups"] == ["dark", "light"]
    confused = sum(count for true, guess, count in about["confused"] if true.split("/")[0] != guess.split("/")[0])
    assert level["accuracy"][0] == pytest.approx(1 - confused / result.data["test"])
    assert level["accuracy"][0] >= result.scores[0].value
    assert "The group of level 1 (dark, light) is right: " in gate_runner.report(tmp_path / "run")
    assert ClassWords().named(["dark/black_cat", "light/white"]) == ("black cat", "white")
    assert ClassWords().named(["a/x", "b/x"]) == ("a/x", "b/x")
    (mine / "dark" / "test").mkdir()
    (mine / "benchmark.toml").unlink()
    shade(mine / "dark" / "test" / "0.png", 20)
    assert new(mine) == 2
    assert "dark holds no .jpg" in capsys.readouterr().err


def class_maps(folder: Path, training: str) -> Path:
    """Images whose left or right half is bright, which is class 1."""
    generator = np.random.default_rng(0)
    for name in ("images", "masks"):
        (folder / name).mkdir()
    for number in range(40):
        mask = np.zeros((32, 32), np.uint8)
        mask[:, 16:] = 1
        mask = mask[:, ::-1] if number % 2 else mask
        pixels = 60 + 120 * mask[..., None] + generator.integers(0, 30, (32, 32, 3))
        Image.fromarray(pixels.astype(np.uint8)).save(folder / "images" / f"{number}.png")
        Image.fromarray(np.ascontiguousarray(mask)).save(folder / "masks" / f"{number}.png")
    file = folder / "benchmark.toml"
    file.write_text(
        '[benchmark]\nid = "m"\ntask = "segmentation"\n[data]\nkind = "maps"\nroot = "images"\n'
        f"annotations = \"masks/*.png\"\n[classes]\nnames = ['dark', 'bright']\n[training]\n{training}\n"
    )
    return file


def test_class_maps_of_ones_own_can_have_a_head_that_is_solved(tmp_path: Path) -> None:
    result = run(class_maps(tmp_path, "head = 'ridge'"))
    assert {"penalty", "lift"} <= set(result.training["tried"][0])
    assert result.training["steps"] == 0
    assert result.headline is not None
    assert result.headline.value > 0.8


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ("head = 'ridge'\nsteps = 5", "'ridge' is solved without steps, so steps does nothing"),
        ("head = 'rigde'", "unknown value of head 'rigde'; nearest: ridge"),
    ],
)
def test_heads_of_class_maps_that_are_not_there_or_not_stepped(tmp_path: Path, training: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        own_benchmark(class_maps(tmp_path, training))
