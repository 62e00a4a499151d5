"""Texts that are longer than an encoder reads: counted, named at once, and kept in results."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from typer.testing import CliRunner

from gate_runner.cli import app
from vision_features.encoders import load_encoder
from vision_features.encoders.open_clip_models import _counter
from vision_features.encoders.own import adopt

LONG = "a thing " + "that has a long name with many words " * 4 + "which tells it apart: "
CUT = "texts have more than the 32 tokens that this encoder reads, and what is behind them is cut off: 'a "


class Words(torch.nn.Module):
    """The mean of random vectors of the first four words."""

    image_size = 16
    context_length = 4

    def __init__(self) -> None:
        super().__init__()
        self.kept = torch.nn.Parameter(torch.ones(1))

    def encode_image(self, images: Tensor) -> Tensor:
        return images.mean(dim=(2, 3)) * self.kept

    def encode_text(self, texts: Sequence[str]) -> Tensor:
        rows = [[float(len(word)) for word in (text + " a b c").split()[:3]] for text in texts]
        return torch.tensor(rows) * self.kept

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]


def folders(root: Path, names: Sequence[str]) -> Path:
    for number, name in enumerate(names):
        for index in range(6):
            (root / name).mkdir(parents=True, exist_ok=True)
            pixels = np.random.default_rng(10 * number + index).integers(0, 255, (32, 32, 3), np.uint8)
            Image.fromarray(pixels).save(root / name / f"{index}.png")
    return root


def test_counts_are_those_of_whole_texts() -> None:
    encoder = load_encoder("micro-clip")
    assert encoder.cut_texts(["a red square", LONG[:40]]) == ""
    words_cut = encoder.cut_texts([LONG + "cat", LONG + "dog", LONG + "dog", "a cat"])
    assert words_cut.startswith(f"2 of 3 {CUT}"), words_cut
    words = len(LONG.replace(",", " ,").replace(":", " :").split()) + 1
    assert words_cut.endswith(f"has {words + 2}"), words_cut


def test_open_clips_tokens_are_counted() -> None:
    open_clip = pytest.importorskip("open_clip")
    tokenize = open_clip.get_tokenizer("ViT-B-32")
    count = _counter(tokenize)
    assert count is not None
    fits = " ".join(["cat"] * 75)
    assert count([fits, f"{fits} dog"]) == [77, 78]
    cut = tokenize([f"{fits} dog", f"{fits} hen"])
    assert torch.equal(cut[0], cut[1])  # which is why it has to be said


def test_own_encoders_may_count() -> None:
    encoder = adopt(Words(), "words")
    assert encoder.cut_texts(["one two three four"]) == ""
    assert encoder.cut_texts(["one two three four five"]).startswith("1 of 1 texts have more than the 4 tokens")
    assert adopt(torch.nn.Flatten(), "flat").cut_texts([LONG]) == ""


def test_zero_shot_names_class_texts_that_are_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = folders(tmp_path / "mine", ("a", "b", "c"))
    (tmp_path / "names.json").write_text(json.dumps({name: LONG + name for name in "abc"}))
    names, run = tmp_path / "names.json", tmp_path / "run"
    options = ["adapt", "zeroshot", data, "--encoder", "micro-clip", "--words", names, "--output", run]
    with caplog.at_level(logging.WARNING):
        done = CliRunner().invoke(app, [str(option) for option in options])
    assert done.exit_code == 0, done.output
    assert CUT in caplog.text
    (result,) = (run / "results").glob("*.json")
    assert CUT in json.loads(result.read_text())["training"]["cut_texts"]


def test_finetune_names_captions_that_are_cut(tmp_path: Path) -> None:
    data = folders(tmp_path / "own", ("pictures",))
    lines = [f"pictures/{number}.png,{LONG.replace(',', ';')}{number}" for number in range(6)]
    (data / "captions.csv").write_text("\n".join(["image,caption", *lines]) + "\n")
    options: list[Any] = ["finetune", data, "--encoder", "micro-clip", "--steps", 1, "--output", tmp_path / "tuned"]
    done = CliRunner().invoke(app, [str(option) for option in options])
    assert done.exit_code == 0, done.output
    assert " tokens that this encoder reads" in done.output.replace("\n", " ")
