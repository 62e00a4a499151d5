"""A finished run again: known without loading the encoder while nothing that it was made from has changed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from PIL import Image

from gate_data.own import guess, write_benchmark
from gate_runner.encoders import load_encoder
from gate_runner.encoders.loading import recalled, remember, surroundings
from gate_runner.encoders.named import CARD_SCHEMA

RUN = """
import sys
from gate_runner.cli import main
try:
    main(["run", "FOLDER/pictures/benchmark.toml", "--output", "FOLDER/run"])
finally:
    print("TORCH", "torch" in sys.modules)
"""


def again(folder: Path, **variables: str) -> tuple[int, str, str]:
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "GATE_RUNNER_CACHE": str(folder / "cache"), **variables}
    command = [sys.executable, "-c", RUN.replace("FOLDER", str(folder))]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_finished_run_prints_its_table_without_torch_while_nothing_changed(tmp_path: Path) -> None:
    for label in ("dark", "light"):
        (tmp_path / "pictures" / label).mkdir(parents=True)
        for number in range(15):
            shade = number + 200 * (label == "light")
            Image.new("RGB", (16, 16), (shade, shade, shade)).save(tmp_path / "pictures" / label / f"{number}.png")
    write_benchmark(guess(tmp_path / "pictures").values, tmp_path / "pictures" / "benchmark.toml")
    time.sleep(2.1)  # what changed within two seconds is not remembered
    assert again(tmp_path)[0] == 0

    status, printed, _ = again(tmp_path)
    assert (status, "TORCH False" in printed, "acc@1" in printed) == (0, True, True)
    status, printed, _ = again(tmp_path, SOME_LIBRARYS_SWITCH="perhaps")  # then the encoder is loaded and compared
    assert (status, "TORCH True" in printed) == (0, True)
    Image.new("RGB", (16, 16), (9, 9, 9)).save(tmp_path / "pictures" / "dark" / "0.png")
    status, _, message = again(tmp_path)
    assert (status, "on other data" in message) == (2, True)


def test_only_what_is_built_in_and_lies_here_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_RUNNER_CACHE", str(tmp_path))
    about = {"description": {}, "outputs": {}}
    load_encoder("micro-clip")  # libraries set variables as they are imported
    remember("micro-clip", about, surroundings())
    assert recalled("micro-clip") == about
    assert recalled("micro-clip/random") is None
    for text in (
        "timm:resnet18",
        "hf:facebook/dinov2-small",
        "open_clip:ViT-B-32/laion2b_s34b_b79k",
        "tests.mine:make",
    ):
        remember(text, about, surroundings())  # a hub's, or code that can read anything
        assert recalled(text) is None, text
    monkeypatch.setenv("SOME_LIBRARYS_SWITCH", "perhaps")
    assert recalled("micro-clip") is None
    monkeypatch.delenv("SOME_LIBRARYS_SWITCH")
    next(tmp_path.rglob("*.json")).write_text("{")
    assert recalled("micro-clip") is None


def test_weights_in_files_are_known_by_their_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_RUNNER_CACHE", str(tmp_path / "cache"))
    weights, tuned = tmp_path / "w.pth", tmp_path / "tuned"
    torch.save({}, weights)
    tuned.mkdir()
    (tuned / "card.json").write_text(
        f'{{"schema": "{CARD_SCHEMA}", "encoder": {{"spec": "micro-clip", "start": "0", "fingerprint": "1"}}}}'
    )
    for text, file in ((f"timm:resnet18/{weights}", weights), (f"tuned:{tuned}", tuned / "card.json")):
        remember(text, {"description": {}}, surroundings())
        assert recalled(text) == {"description": {}}
        file.write_text(file.read_text(errors="replace") + " ")
        assert recalled(text) is None


def test_a_library_that_sets_variables_as_it_loads_changes_nothing(tmp_path: Path) -> None:
    code = RUN.replace('"FOLDER/pictures/benchmark.toml"', '"digits", "--limit", "40"')
    environment = {**os.environ, "GATE_RUNNER_CACHE": str(tmp_path / "cache")}
    printed = ""
    for _ in range(2):
        command = [sys.executable, "-c", code.replace("FOLDER", str(tmp_path))]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=True)
        printed = done.stdout
    assert "TORCH False" in printed
