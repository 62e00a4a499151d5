"""What is kept is not lost, not exchanged and not mixed up: heads, trained encoders, checkpoints and recipes."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import gate_runner
from gate_runner.errors import DataError, EncoderError, UsageError
from gate_runner.exporting import export
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.results import Result
from gate_runner.runs.stored import read_run
from gate_runner.settings import Settings
from gate_runner.tasks.recipes import augmentation_of, checked
from knowledge_prompts import ClassWords
from vision_adapters.saved import card_digest
from vision_features.encoders import load_encoder
from vision_features.encoders.tuned import load_tuned, save_tuned
from vision_features.heads import load_head
from vision_features.heads.predicting import Prediction, write_csv
from wary_files.errors import StorageError
from wary_files.folders import write_folder

from ._folders import write_run


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for name, colour in {"red": (220, 40, 40), "blue": (40, 40, 220)}.items():
        (folder / name).mkdir()
        for number in range(6):
            Image.new("RGB", (32, 32), (colour[0], 20 * number, colour[2])).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def head(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heads") / "head"
    run = tmp_path_factory.mktemp("run")
    gate_runner.adapt(photos, probe="logistic", encoder="micro-dense", device="cpu", save=folder, output=run)
    return folder


def changed(head: Path, folder: Path, change: Callable[[dict[str, Any]], None], *, signed: bool) -> Path:
    shutil.copytree(head, folder)
    card = json.loads((folder / "card.json").read_text())
    change(card)
    if signed:
        card["digest"] = card_digest(card)
    (folder / "card.json").write_text(json.dumps(card))
    return folder


def test_a_card_whose_classes_were_exchanged_is_refused(head: Path, tmp_path: Path) -> None:
    changed_head = changed(head, tmp_path / "head", lambda card: card["classes"].reverse(), signed=False)
    with pytest.raises(DataError, match=r"card\.json was changed after it was written"):
        load_head(changed_head)


def test_a_head_of_the_last_release_is_read(head: Path, tmp_path: Path) -> None:
    def older(card: dict[str, Any]) -> None:
        card["schema"] = "gate-runner/head/2"
        for name in ("mean", "std"):
            del card["encoder"][name]
        del card["digest"]

    assert load_head(changed(head, tmp_path / "head", older, signed=False)).classes == ("blue", "red")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda card: card.update(classes=["a", "b", "c"]), "3 different classes for a head of 2"),
        (lambda card: card.update(classes=["a", "a"]), "1 different classes"),
        (lambda card: card.update(classes=True), "classes are True"),
        (lambda card: card.update(classes=[1, 2]), "expected a list of names"),
        (lambda card: card.update(features="bogus"), "features are 'bogus'"),
    ],
)
def test_cards_that_cannot_be(head: Path, tmp_path: Path, change: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_head(changed(head, tmp_path / "head", change, signed=True))


def test_tensors_that_are_no_numbers(head: Path, tmp_path: Path) -> None:
    import hashlib

    from safetensors.torch import load_file, save

    tensors = load_file(head / "head.safetensors")
    name = next(name for name, value in tensors.items() if value.ndim == 2)
    tensors[name][0, 0] = float("nan")
    content = save(tensors)

    def with_nan(card: dict[str, Any]) -> None:
        card["files"]["head.safetensors"] = hashlib.sha256(content).hexdigest()

    changed_head = changed(head, tmp_path / "head", with_nan, signed=True)
    (changed_head / "head.safetensors").write_bytes(content)
    with pytest.raises(DataError, match="holds NaN or infinity"):
        load_head(changed_head)


def test_the_same_weights_behind_another_normalisation(head: Path, tmp_path: Path) -> None:
    encoder = load_encoder("micro-dense")
    encoder.mean = (0.5, 0.5, 0.5)
    with pytest.raises(EncoderError, match="was adapted on images with mean"):
        load_head(head, encoder=encoder)
    assert encoder.module is not None
    start = {name: value.clone() for name, value in encoder.module.state_dict().items()}
    save_tuned(encoder, start, tmp_path / "tuned", {})
    with pytest.raises(EncoderError, match="was trained on images with mean"):
        load_tuned(tmp_path / "tuned", load_encoder("micro-dense"))


@pytest.mark.parametrize("call", ["mkdir", "fsync", "replace", "rename", "rmtree"])
def test_a_process_that_stops_while_a_folder_is_written_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Stopped before each of its calls of the system, from the first on."""
    owner = shutil if call == "rmtree" else os
    old, new = {"a": b"old", "b": b"old"}, {"a": b"new", "b": b"new"}
    for number in range(12):
        folder = tmp_path / str(number) / "folder"
        write_folder(folder, old)
        left = [number]
        real = getattr(owner, call)

        def stopping(*args: Any, left: list[int] = left, real: Any = real, **more: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return real(*args, **more)

        with monkeypatch.context() as patch:
            patch.setattr(owner, call, stopping)
            try:
                write_folder(folder, new)
                stopped = False
            except KeyboardInterrupt:
                stopped = True
        contents = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert contents in (old, new)
        write_folder(folder, new)
        assert [path.name for path in folder.parent.iterdir()] == ["folder"]
        if not stopped:
            break


def test_a_run_folder_of_another_fine_tuning_is_refused(photos: Path, tmp_path: Path) -> None:
    def tune(**options: Any) -> float:
        how: dict[str, Any] = {"encoder": "micro-dense", "tune": "bias", "recipe_fields": {"steps": 2}, "device": "cpu"}
        done = gate_runner.adapt(photos, "finetune", output=tmp_path / "run", **{**how, **options})
        return done.results[0].scores[0].value

    assert tune() == tune()
    for options, message in (
        ({"encoder": "micro-dense/random"}, "micro-dense/random"),
        ({"recipe_fields": {"steps": 3}}, "recipe_fields"),
        ({"metric": "mean_per_class"}, "asked for otherwise"),
        ({"words": ClassWords(templates=("a {} wall",))}, "asked for otherwise"),
    ):
        with pytest.raises(UsageError, match=message):
            tune(**options)


def test_a_recipe_is_known_by_what_it_says(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text('base = "gate"\nsteps = 2\nlr = 1e-4\nhead_start = "probe"\naugment = false\n')
    first = Settings(tune="bias", recipe=str(path), recipe_fields={"steps": "3"})
    assert first.recipe == "gate"
    assert augmentation_of(first) == "none"
    path.write_text('base = "gate"\nsteps = 2\nlr = 0.3\n')
    second = Settings(tune="bias", recipe=str(path))
    assert first.identity() != second.identity()
    assert first.identity()["recipe_fields"] == {"steps": "3", "lr": 1e-4, "head_start": "probe", "augment": False}
    assert Settings(**first.to_mapping()).identity() == first.identity()  # as a worker gets it


@pytest.mark.parametrize("text", ['base = "gats"', "a = " + "[" * 5000, "steps = "])
def test_recipes_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match="recipe"):
        Settings(tune="bias", recipe=str(path))


@pytest.mark.parametrize(
    "fields",
    [
        {"steps": "inf"}, {"steps": "1e400"}, {"steps": [1]}, {"betas": 3}, {"betas": "3"}, {"betas": ".9,1"},
        {"lr": True},
        {"lr": "nan"}, {"lr": "\u0663"}, {"steps": "1_0"},
        {"augment": "perhaps"}, {"batch_size": "1e19"}, {"validate_every": "1e30"},
    ],
)  # fmt: skip
def test_recipe_fields_that_are_none(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(fields))):
        checked(fields)


@pytest.mark.parametrize("link", ["export/csv/results.csv", "export/csv", "export/csv/.export.lock"])
def test_a_run_folder_of_a_stranger_has_no_other_file_written(tmp_path: Path, link: str) -> None:
    run = write_run(tmp_path / "run", {"digits": 0.5})
    elsewhere = tmp_path / "mine"
    elsewhere.mkdir()
    (elsewhere / "results.csv").write_text("precious")
    symlink = run / link
    symlink.parent.mkdir(parents=True)
    symlink.symlink_to(elsewhere if link == "export/csv" else elsewhere / "results.csv")
    with pytest.raises(UsageError, match=r"leads out of|cannot write"):
        export(read_run(run), "csv", run / "export" / "csv")
    assert [path.name for path in elsewhere.iterdir()] == ["results.csv"]
    assert (elsewhere / "results.csv").read_text() == "precious"
    (tmp_path / "out").symlink_to(elsewhere)  # the user's own link, whose name the user says
    assert export(read_run(run), "csv", tmp_path / "out").files


def test_a_table_of_predictions_holds_no_formula(tmp_path: Path) -> None:
    with (tmp_path / "p.csv").open("w") as file:
        write_csv([Prediction("a.png", error="=cmd|x.png cannot be read")], 1, file)
    assert "'=cmd" in (tmp_path / "p.csv").read_text()


def test_an_export_that_fails_leaves_the_old_file(head: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxscript")
    from vision_features.heads.onnx import export_onnx

    (tmp_path / "head.onnx").write_bytes(b"old")

    def failing(*args: Any, **more: Any) -> None:
        Path(args[2]).write_bytes(b"half")
        raise RuntimeError("no operator of that name")

    monkeypatch.setattr(torch.onnx, "export", failing)
    with pytest.raises(EncoderError, match="cannot be written as ONNX"):
        export_onnx(load_head(head), tmp_path / "head.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["head.onnx"]
    assert (tmp_path / "head.onnx").read_bytes() == b"old"


def test_an_export_into_no_folder_of_ones_own_is_the_folders_error(head: Path, tmp_path: Path) -> None:
    """It was the encoder's, after a minute."""
    pytest.importorskip("onnxscript")
    from vision_features.heads.onnx import export_onnx

    (tmp_path / "file").touch()
    place = tmp_path / "file" / "head.onnx"
    with pytest.raises(StorageError, match=rf"cannot write {re.escape(str(place))}: Not a directory"):
        export_onnx(load_head(head), place)


def test_a_strangers_run_is_exported_into_the_folder_alone(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"digits": 0.5})
    path = run / "manifest.json"
    manifest = json.loads(path.read_text())
    encoder = {"fingerprint": "../../../../../escaped", "spec": "../../escaped"}
    manifest["identity"]["encoder"].update(encoder)
    path.write_text(json.dumps(manifest))
    file = RunFolder(run).result_file("digits", 0)
    file.write_text(replace(Result.from_file(file), encoder=encoder).to_json())
    for form in ("every-eval-ever", "model-card", "csv"):
        exported = export(read_run(run), form, tmp_path / "out" / "a" / "b" / form)
        assert all((tmp_path / "out" / "a" / "b" / form) in file.resolve().parents for file in exported.files)
    assert {path.name for path in tmp_path.iterdir()} == {"run", "out"}
    assert {path.name for path in (tmp_path / "out" / "a" / "b").iterdir()} == {
        "every-eval-ever",
        "model-card",
        "csv",
    }
    assert [path.name for path in (tmp_path / "out").rglob("*") if path.parent.name in ("out", "a")] == ["a", "b"]
