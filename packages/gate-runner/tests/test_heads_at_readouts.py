"""From choice to use: heads at any read-out are kept, loaded, predicted with and exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from gate_runner import adapt, run
from gate_runner.choosing.choice import choose
from gate_runner.errors import DataError, EncoderError, UsageError
from gate_runner.tasks import classification_training
from vision_features import load_head
from vision_features.encoders import load_encoder

HOW: dict[str, Any] = {"device": "cpu", "show": False, "isolate": "none"}
READOUTS = (
    "concat",
    "before-projection",
    "last/z",
    "last/l2/int8",
    "last/float16",
    "block:2/cls+mean/ln",
    "block:3/mean/z/binary",
    "last+block:1/mean/z/pca8",
    "block:1/mean/dims16",
    "block:2/attentive",
    "auto",
)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three colours in noise, already of the encoder's size: nothing is rounded on the way."""
    folder = tmp_path_factory.mktemp("photos")
    draw = np.random.default_rng(0)
    for name, colour in {"blue": (90, 110, 150), "green": (90, 150, 110), "red": (150, 110, 90)}.items():
        for split, count in (("train", 14), ("test", 8)):
            (folder / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = (np.array(colour) + draw.integers(-90, 90, (64, 64, 3))).clip(0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(folder / split / name / f"{number}.png")
    return folder


@pytest.mark.parametrize("readout", READOUTS)
def test_a_kept_head_gives_the_predictions_of_its_run(
    photos: Path, tmp_path: Path, readout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("steps", 120), ("rates", (1.0,))):
        monkeypatch.setitem(classification_training._ATTENTIVE, name, value)
    done = adapt(
        photos, encoder="micro-dense", readout=readout, save=tmp_path / "head", output=tmp_path / "run", device="cpu"
    )
    (samples,) = (tmp_path / "run" / "samples").glob("*.npz")
    head = load_head(tmp_path / "head", device="cpu")
    assert head.card["reading"]["readout"] == (
        done.results[0].training["readout"]["chosen"] if readout == "auto" else readout
    )
    files = [photos / "test" / name / f"{number}.png" for name in head.classes for number in range(8)]
    predicted = {Path(made.file): made.classes[0] for made in head.predict(files)}
    right = sum(predicted[file] == file.parent.name for file in files) / len(files)
    assert right == pytest.approx(done.results[0].scores[0].value, abs=1e-9)
    with np.load(samples) as arrays:
        assert sorted(head.classes[number] for number in arrays["predicted"]) == sorted(predicted.values())


def test_a_run_keeps_a_head_for_each_read_out(tmp_path: Path) -> None:
    done = run(
        "digits", encoder="micro-dense", output=tmp_path, limit=60, readout="last,concat", save_heads=True, **HOW
    )
    heads = {folder.name: load_head(folder, device="cpu") for folder in done.heads}
    assert {name: head.reading is None for name, head in heads.items()} == {
        "digits.seed0": True,
        "digits@readout=concat.seed0": False,
    }


def test_an_encoder_without_the_read_out_is_one_line(photos: Path, tmp_path: Path) -> None:
    how: dict[str, Any] = {"output": tmp_path / "r", "device": "cpu"}
    adapt(photos, encoder="micro-dense", readout="block:2/mean", save=tmp_path / "head", **how)
    shallow = load_encoder("micro-dense")
    shallow.blocks = None
    shallow._readouts, shallow.outputs = {}, {}
    with pytest.raises(EncoderError) as raised:
        load_head(tmp_path / "head", encoder=shallow, device="cpu")
    assert "\n" not in str(raised.value)
    assert "reads its encoder out at 'block:2/mean'" in str(raised.value)


def test_a_changed_read_out_of_a_head_is_refused(photos: Path, tmp_path: Path) -> None:
    adapt(photos, encoder="micro-dense", readout="last/z", save=tmp_path / "head", output=tmp_path / "r", device="cpu")
    file = tmp_path / "head" / "readout.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\0")
    with pytest.raises(DataError, match=r"readout\.safetensors"):
        load_head(tmp_path / "head", device="cpu")


def test_choose_keeps_the_best_encoders_head(photos: Path, tmp_path: Path) -> None:
    from gate_runner.commands.run import own_folder
    from gate_runner.settings import Settings

    settings = Settings().changed(readout="auto", device="cpu", isolate="none")
    choice = choose(
        own_folder(photos), ["micro-dense", "micro-dense/random"], tmp_path / "runs", settings, save=tmp_path / "head"
    )
    head = load_head(tmp_path / "head", device="cpu")
    best = choice.candidates[0]
    assert head.encoder.spec == best.encoder
    assert best.readout in ("last", head.card.get("reading", {}).get("readout"))
    assert head.card["scores"]["value"] == best.value
    with pytest.raises(UsageError, match="--save keeps heads of image classification"):
        choose("digits@knn", ["micro-dense", "micro-dense/random"], tmp_path / "knn", settings, save=tmp_path / "other")


AGAIN = [pytest.param(readout, marks=pytest.mark.again) for readout in ("last/z", "block:2/mean", "concat")]


@pytest.mark.parametrize("readout", ["last+block:2/mean/z", *AGAIN])
def test_a_head_at_a_read_out_is_exported(photos: Path, tmp_path: Path, readout: str) -> None:
    pytest.importorskip("onnxscript")
    onnxruntime: Any = pytest.importorskip("onnxruntime")
    from vision_features.heads.onnx import export_onnx

    adapt(photos, encoder="micro-dense", readout=readout, save=tmp_path / "head", output=tmp_path / "r", device="cpu")
    head = load_head(tmp_path / "head", device="cpu")
    export_onnx(head, tmp_path / "head.onnx")
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(3))
    session = onnxruntime.InferenceSession(str(tmp_path / "head.onnx"), providers=["CPUExecutionProvider"])
    (probabilities, scores) = session.run(None, {"pixels": images.numpy()})
    assert torch.allclose(torch.from_numpy(scores), head.scores(images), rtol=1e-3, atol=1e-3)
    assert np.allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert (probabilities.argmax(axis=1) == scores.argmax(axis=1)).all()


def test_the_commands_take_read_outs(photos: Path, tmp_path: Path) -> None:
    from gate_runner.cli import app

    how = ["--encoder", "micro-dense", "--device", "cpu", "--readout", "concat"]
    where = ["--output", str(tmp_path / "r"), "--save", str(tmp_path / "head")]
    done = CliRunner().invoke(app, ["adapt", "probe", str(photos), *how, *where])
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "head" / "card.json").read_text())["reading"]["readout"] == "concat"
    done = CliRunner().invoke(app, ["adapt", "predict", str(tmp_path / "head"), str(photos / "test")])
    assert done.exit_code == 0, done.output
    assert done.output.count("\n") >= 25
