"""``gate-runner adapt`` on a folder of scikit-learn's handwritten digits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

import gate_runner
from gate_runner.adaptation import Probe, ZeroShot
from gate_runner.cli import main
from gate_runner.encoders import load_encoder

NAMES = ("zero", "one", "two")
CHANCE = 1 / len(NAMES)


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """Ten training and ten test images of each of three digits."""
    images, labels = load_digits(return_X_y=True)
    for number, name in enumerate(NAMES):
        for place, pixels in enumerate(images[labels == number][:20]):
            folder = tmp_path / "digits" / ("train" if place < 10 else "test") / name
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.rint(pixels.reshape(8, 8) * 255 / 16).astype(np.uint8)).save(folder / f"{place}.png")
    return tmp_path / "digits"


def adapt(*arguments: object) -> None:
    """The command in this process; it ends as every command does, with status 0."""
    with pytest.raises(SystemExit) as ended:
        main(["adapt", *map(str, arguments)])
    assert ended.value.code in (0, None)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command says that ends with status 2: one line."""
    with pytest.raises(SystemExit) as ended:
        main(["adapt", *map(str, arguments)])
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1
    return said.err


def test_zeroshot_scores_the_test_images(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adapt("zeroshot", digits, "--output", tmp_path / "out.json")
    assert capsys.readouterr().out.startswith("zero_shot: test accuracy 0.")
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["classes"] == sorted(NAMES)
    assert found["low"] <= found["value"] <= found["high"]


@pytest.mark.parametrize("options", [(), ("--shots", 5, "--method", "logistic", "--features", "backbone")])
def test_probe_learns(options: tuple[object, ...], digits: Path, tmp_path: Path) -> None:
    adapt("probe", digits, *options, "--output", tmp_path / "out.json")
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["images"] == (15 if options else 30)
    assert found["features"] == ("backbone" if options else "projected")
    assert found["value"] > CHANCE + 0.2


def test_finetune_learns_and_continues(digits: Path, tmp_path: Path) -> None:
    options = (
        "--part",
        "last_block",
        "--steps",
        8,
        "--batch-size",
        8,
        "--lr",
        1e-3,
        "--precision",
        "bfloat16",
        "--checkpoint",
        tmp_path / "state",
    )
    adapt("finetune", digits, *options, "--output", tmp_path / "out.json")
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["best_step"] > 0
    assert found["precision"] == "bfloat16"
    assert found["validation"] > CHANCE + 0.2
    assert found["value"] > CHANCE + 0.2
    adapt("finetune", digits, *options, "--output", tmp_path / "again.json")
    again = json.loads((tmp_path / "again.json").read_text())
    assert {**again, "seconds": 0} == {**found, "seconds": 0}


def test_finetune_without_steps_or_without_the_tuned_part_is_zero_shot(digits: Path, tmp_path: Path) -> None:
    adapt("zeroshot", digits, "--output", tmp_path / "zeroshot.json")
    adapt("finetune", digits, "--steps", 0, "--output", tmp_path / "none.json")
    adapt("finetune", digits, "--part", "bias", "--steps", 1, "--wise", 0, "--output", tmp_path / "start.json")
    values = {json.loads((tmp_path / f"{name}.json").read_text())["value"] for name in ("zeroshot", "none", "start")}
    assert len(values) == 1


def test_a_mistake_is_one_line_and_status_2(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere does not exist" in refused(capsys, "zeroshot", tmp_path / "nowhere")
    assert "unknown encoder 'micro-klip'" in refused(capsys, "probe", digits, "--encoder", "micro-klip")
    assert "'a photo', has 0 placeholders; expected exactly one '{}'" in refused(
        capsys, "zeroshot", digits, "--template", "a photo"
    )
    assert "features must be projected or backbone" in refused(capsys, "probe", digits, "--features", "raw")
    assert "gda needs class_embeddings" in refused(capsys, "probe", digits, "--features", "backbone", "--method", "gda")
    assert "method 'magic' is unknown" in refused(capsys, "probe", digits, "--method", "magic")
    assert "expected at least 11" in refused(capsys, "probe", digits, "--shots", 11)
    assert "precision must be one of" in refused(capsys, "finetune", digits, "--precision", "half")
    assert "part must be one of" in refused(capsys, "finetune", digits, "--part", "most")
    assert "try a lower --lr" in refused(capsys, "finetune", digits, "--part", "last_block", "--lr", 1e30)
    assert "must be a file in a folder" in refused(capsys, "probe", digits, "--output", tmp_path / "none" / "out.json")


def test_an_unreadable_image_is_named_and_left_out_on_request(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = digits / "train" / "one" / "broken.png"
    broken.write_bytes(b"not an image")
    assert f"{broken} cannot be read as an image" in refused(capsys, "probe", digits)
    adapt("probe", digits, "--method", "gda", "--skip-unreadable", "--output", tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["skipped"] == [str(broken)]
    assert f"skipped {broken}" in capsys.readouterr().err


def _moved(digits: Path, names: dict[str, str]) -> Path:
    for old, new in names.items():
        (digits / old).rename(digits / new)
    return digits


def test_imagenets_own_layout_is_two_splits(digits: Path, tmp_path: Path) -> None:
    import gate_runner

    found = gate_runner.adapt(_moved(digits, {"test": "VAL"}), gate_runner.ZeroShot(), device="cpu")
    assert (found.classes, found.train, found.test, found.shared) == (tuple(sorted(NAMES)), 30, 30, ())


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"test": "tast"}, "holds train beside tast: splits, or classes?"),
        ({"test": "../gone"}, "holds train, which are no whole splits; expected train with test or val"),
        ({"train/one": "train/ZERO", "test/one": "test/ZERO"}, "are 'ZERO' and 'zero' one class or two?"),
        ({"train/one": "gone", "test": "../test"}, "holds train beside gone"),
    ],
)
def test_what_looks_like_splits_but_is_not_whole_is_refused(
    names: dict[str, str], said: str, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(capsys, "zeroshot", _moved(digits, names))


def test_an_empty_class_does_not_vanish(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (digits / "train" / "three").mkdir()
    assert f"{digits / 'train' / 'three'} holds no" in refused(capsys, "zeroshot", digits)


def test_test_images_that_are_training_images_are_named(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same pixels in another file format, and for a fine-tuning the same file."""
    image = Image.open(digits / "train" / "one" / "3.png")
    image.save(digits / "test" / "one" / "copy.bmp")
    adapt("zeroshot", digits, "--output", tmp_path / "out.json")
    pair = [str(digits / "test" / "one" / "copy.bmp"), str(digits / "train" / "one" / "3.png")]
    assert json.loads((tmp_path / "out.json").read_text())["shared"] == [pair]
    assert f"in the test and the training images: {pair[0]} is {pair[1]}" in capsys.readouterr().err
    (digits / "test" / "one" / "copy.bmp").write_bytes((digits / "train" / "one" / "3.png").read_bytes())
    adapt("finetune", digits, "--steps", 1, "--part", "bias", "--output", tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["shared"] == [pair]


def test_a_table_says_which_row_is_wrong(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "own.csv"
    rows = [f"digits/train/{name}/{place}.png,{name}" for name in NAMES for place in range(10)]
    table.write_text("\n".join(["path,label", *rows]))
    adapt("zeroshot", table)
    assert "on 6 images of 3 classes" in capsys.readouterr().out
    table.write_text("\n".join(["path,label", *rows, "nowhere.png,one"]))
    assert f"{table}, line 32: field 'path' is 'nowhere.png', expected a file" in refused(capsys, "zeroshot", table)
    table.write_text("path,label,split\n" + "\n".join(f"{row},held" for row in rows))
    assert "field 'split' is 'held', expected train, val or test" in refused(capsys, "zeroshot", table)


def test_a_module_is_tuned_from_python(digits: Path) -> None:
    import torch
    from torch import nn

    import gate_runner

    torch.manual_seed(0)
    model = nn.Sequential(nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(192, 16))
    told: list[str] = []
    before = model[2].weight.detach().clone()
    found = gate_runner.adapt(
        digits,
        gate_runner.Finetune(steps=20, lr=1e-2),
        encoder=model,
        batch_size=16,
        device="cpu",
        progress=lambda phase, done, total: told.append(phase),
    )
    assert found.value > CHANCE + 0.2
    assert not torch.equal(before, model[2].weight)
    assert {"train", "encode test"} <= set(told)


def test_the_backbones_features_lead_to_the_projected_ones() -> None:
    import torch

    from gate_runner.encoders import load_encoder

    encoder = load_encoder("micro-clip/random")
    images = torch.randint(0, 256, (3, 3, 64, 64), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    before, after = encoder.encode_backbone(images), encoder.encode_image(images)
    assert before.shape[1] > after.shape[1]
    torch.testing.assert_close(before @ encoder.module.visual.proj, after)
    assert "backbone" in encoder.provides()


def test_an_own_encoder_that_fails_late_is_one_line(own: str, digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "probe", digits, "--encoder", f"{own}:raises_late", "--batch-size", 16)
    assert "encode_image of images of shape (14, 3, 32, 32) raised RuntimeError: the sensor has gone" in said


def test_features_are_encoded_once_for_all_methods_shots_and_seeds(digits: Path, tmp_path: Path) -> None:
    encoder, calls = load_encoder("micro-clip/random"), []
    image = encoder.image
    cache = tmp_path / "cache"

    def counted(images: torch.Tensor) -> torch.Tensor:
        calls.append(len(images))
        return image(images)

    encoder.image = counted

    def value(**options: Any) -> float:
        return gate_runner.adapt(digits, encoder=encoder, device="cpu", **options).value

    first = value(method=Probe("logistic"), cache=cache)
    encoded = sum(calls)
    assert encoded == 60
    assert value(method=Probe("logistic"), cache=cache) == first == value(method=Probe("logistic"))
    assert sum(calls) == encoded + 60  # by the last one, in another cache
    for method in (Probe("gda", shots=5), Probe("logistic", shots=2), ZeroShot()):
        assert value(method=method, cache=cache, seed=3) == value(method=method, seed=3)
    assert sum(calls) == encoded + 60
    shared = digits / "train" / NAMES[0] / "0.png"
    (digits / "test" / NAMES[0] / "10.png").write_bytes(shared.read_bytes())
    found = gate_runner.adapt(digits, encoder=encoder, device="cpu", cache=cache)
    assert found.shared == ((str(digits / "test" / NAMES[0] / "10.png"), str(shared)),)
    other = load_encoder("micro-clip/random:1")
    kept = gate_runner.adapt(digits, Probe("logistic"), encoder=other, device="cpu", cache=cache).value
    assert kept == gate_runner.adapt(digits, Probe("logistic"), encoder=other, device="cpu").value
    assert len(list(cache.iterdir())) == 2  # a folder for each encoder


def test_an_animation_in_a_folder_is_not_passed_over(digits: Path, tmp_path: Path) -> None:
    frames = [Image.new("L", (8, 8), level) for level in (40, 200)]
    frames[0].save(digits / "test" / NAMES[0] / "moving.gif", save_all=True, append_images=frames[1:])
    adapt("zeroshot", digits, "--output", tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["test_images"] == 31


def test_a_cache_on_the_command_line(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adapt("probe", digits, "--cache", tmp_path / "cache")
    before = capsys.readouterr().out
    rows = [path for path in (tmp_path / "cache").glob("*/pooled/*.npy") if ".digests." not in path.name]
    written = {path: path.stat().st_mtime_ns for path in rows}
    adapt("zeroshot", digits, "--cache", tmp_path / "cache")
    assert written == {path: path.stat().st_mtime_ns for path in rows}
    for path in rows:
        path.write_bytes(b"spoilt")  # what is damaged is encoded again
    capsys.readouterr()
    adapt("probe", digits, "--cache", tmp_path / "cache")
    assert capsys.readouterr().out == before
