"""A file names no code to run: every file that holds an encoder's spec, with a function's in it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import gate_runner
from gate_runner.cli import app
from gate_runner.errors import EncoderError
from vision_adapters.saved import card_digest
from vision_features.encoders import load_encoder
from vision_features.encoders.named import spec_of_file
from vision_features.encoders.tuned import save_tuned
from vision_features.heads import load_head

EVIL = """
from pathlib import Path

def make():
    Path("PWNED").touch()
    from vision_features.encoders import load_encoder
    made = load_encoder("micro-clip")
    made.spec = "evil:make"
    return made
"""


def photographs(folder: Path) -> None:
    for colour in ("red", "blue"):
        (folder / "photos" / colour).mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (32, 32), colour).save(folder / "photos" / colour / f"{number}.png")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, which is searched for modules, with code and images."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(EVIL)
    photographs(tmp_path)
    return tmp_path


def edited(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """As somebody would who knows how a card is signed."""
    content = json.loads(path.read_text())
    change(content)
    if "digest" in content:
        content["digest"] = card_digest(content)
    path.write_text(json.dumps(content))


def call(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code != 0
    return f"{done.output} {done.exception}"


def trained(folder: Path, spec: str) -> None:
    """A trained encoder's folder, whose card names another spec."""
    encoder = load_encoder("micro-clip")
    assert encoder.module is not None
    start = {name: value.clone() for name, value in encoder.module.state_dict().items()}
    save_tuned(encoder, start, folder, {})
    edited(folder / "card.json", lambda card: card["encoder"].update(spec=spec))


SPECS = ["evil:make", "tuned:nested", "tuned:anything=evil:make", "tuned:round", "hf:somebody/model", "timm:resnet18"]


@pytest.fixture(scope="module")
def holders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that holds a spec: each test changes a copy of its own."""
    folder = tmp_path_factory.mktemp("holders")
    photographs(folder)
    rows = [json.dumps({"id": f"Q{number}", "name": name}) for number, name in enumerate(("oak", "elm", "ash"))]
    (folder / "kb.jsonl").write_text("\n".join(rows[:2]))
    (folder / "more.jsonl").write_text(rows[2])
    trained(folder / "nested", "evil:make")
    trained(folder / "round", "tuned:round")
    with contextlib.chdir(folder):
        gate_runner.adapt("photos", probe="logistic", output="run", encoder="micro-clip", device="cpu", save="head")
        built = CliRunner().invoke(app, ["oven", "build", "kb.jsonl", "--output", "kb", "--encoder", "micro-clip"])
    assert built.exit_code == 0, built.output
    return folder


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest, project: Path, holders: Path) -> str:
    shutil.copytree(holders, project, dirs_exist_ok=True)
    return str(request.param)


def test_a_heads_card(spec: str, project: Path) -> None:
    edited(project / "head" / "card.json", lambda card: card["encoder"].update(spec=spec))
    with pytest.raises(EncoderError, match=r"card\.json"):
        load_head("head")
    for words in (("predict", "head", "photos/red"), ("export", "head", "head.onnx")):
        assert "card.json" in call("adapt", *words)
    assert not (project / "PWNED").exists()
    assert load_head("head", encoder="micro-clip").classes == ("blue", "red")


def test_the_user_may_say_what_a_card_may_not(project: Path) -> None:
    gate_runner.adapt("photos", probe="logistic", output="run", encoder="evil:make", device="cpu", save="head")
    (project / "PWNED").unlink()
    assert "say --encoder evil:make if you trust it" in call("adapt", "predict", "head", "photos/red")
    assert not (project / "PWNED").exists()
    done = CliRunner().invoke(app, ["adapt", "predict", "head", "photos/red", "--encoder", "evil:make"])
    assert done.exit_code == 0, done.output
    assert (project / "PWNED").exists()


def test_a_trained_encoders_card(spec: str, project: Path) -> None:
    trained(project / "tuned", spec)
    isolate = "worker" if spec == "evil:make" else "none"  # a worker asks the same, and takes two seconds to start
    output = call("run", "digits", "--limit", 20, "--encoder", "tuned:tuned", "--output", "runs", "--isolate", isolate)
    assert "card.json" in output
    assert not (project / "PWNED").exists()


def test_a_training_that_began_at_a_share_is_an_encoder_by_its_folder(project: Path) -> None:
    trained(project / "first", "micro-clip")
    trained(project / "second", "tuned:first@0.5")
    assert load_encoder("tuned:second").spec == "tuned:second"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("".join(f"tuned:a{number}=" for number in range(30)) + "micro-clip", "over 20 deep"),
        ("tuned:odd@0.5", "was trained from itself"),
        ("micro-clip/random:" + "9" * 25, "must be a whole number below"),
        ("micro-clip/random:\u0663", "must be a whole number below"),
    ],
)
def test_specs_of_cards_that_cannot_be(spec: str, message: str, project: Path) -> None:
    trained(project / "odd", spec)
    with pytest.raises(EncoderError, match=message):
        load_encoder("tuned:odd")


def test_cards_and_weights_of_other_kinds_are_one_line(project: Path) -> None:
    trained(project / "odd", "micro-clip")
    edited(project / "odd/card.json", lambda card: card["encoder"].update(start=1))
    with pytest.raises(EncoderError, match="start and fingerprint are no texts"):
        load_encoder("tuned:odd")
    trained(project / "piped", "micro-clip")
    (project / "piped/encoder.safetensors").unlink()
    os.mkfifo(project / "piped/encoder.safetensors")
    with pytest.raises(ValueError, match="no file that holds data, but a pipe"):
        load_encoder("tuned:piped")


def test_a_runs_folder_that_is_looked_at(project: Path) -> None:
    gate_runner.run("digits", encoder="evil:make", limit=40, output="run", show=False)
    (project / "PWNED").unlink()
    assert "say --encoder evil:make if you trust it" in call("report", "run", "--look", "--pictures", 1)
    assert not (project / "PWNED").exists()
    assert "A look at the features" in gate_runner.report("run", pictures=1, look=True, encoder="evil:make")
    assert (project / "PWNED").exists()


def test_a_model_of_entities(spec: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gate_runner.commands.libraries import ENCODERS
    from oven_retrieval.commands import train

    class Config:
        encoder = f"{spec}@0123456789ab"

    monkeypatch.setattr("oven_retrieval.models.trained.read_config", lambda folder: (Config, {}))
    with pytest.raises(EncoderError, match=r"model\.json"):
        train.open_trained(ENCODERS, project / "model", project / "kb", "cpu")
    assert not (project / "PWNED").exists()


def test_the_vectors_of_a_knowledge_base(spec: str, project: Path) -> None:
    edited(
        project / "kb" / "vectors" / "manifest.json",
        lambda manifest: manifest["meta"].update(encoder=f"{spec}@926aaf0bd88b; name"),
    )
    assert "manifest.json" in call("oven", "add", "more.jsonl", "--kb", "kb")
    assert "manifest.json" in call("oven", "update", "--kb", "kb")
    assert not (project / "PWNED").exists()


def test_what_is_built_in_may_be_named(project: Path) -> None:
    torch.save({}, project / "weights.pt")
    trained(project / "sound", "micro-clip")
    (project / "model").mkdir()
    for text in ("micro-clip/random:3", "lite:0", "timm:resnet18/random", "timm:resnet18/weights.pt", "tuned:sound",
                 "tuned:sound=micro-clip", "open_clip:ViT-B-32/random", "hf:model"):  # fmt: skip
        assert spec_of_file(text, Path("card.json")) == text
    for text in ("open_clip:ViT-B-32/openai", "open_clip:hf-hub:a/random", "timm:hf_hub:a/random", "hf:absent/model",
                 "open_clip:roberta-ViT-B-32/random", "timm:resnet18", 7, None, "no such thing"):  # fmt: skip
        with pytest.raises(EncoderError, match=r"card\.json names the encoder"):
            spec_of_file(text, Path("card.json"))
