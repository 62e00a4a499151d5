"""``gate-runner eqben score SUITE``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from gate_runner.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(["eqben", "score", *map(str, arguments)])
    shown = capsys.readouterr()
    assert (stopped.value.code or 0) == code, shown.err
    return shown.out if not code else shown.err


def write_colorswap(root: Path) -> None:
    rows = []
    for number in range(6):
        names = [f"images/img_{number}_{side}.png" for side in (1, 2)]
        for name, colours in zip(names, (("red", "blue"), ("blue", "red")), strict=True):
            path = root / "colorswap" / "data" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            image = Image.new("RGB", (64, 64), colours[0])
            image.paste(colours[1], (0, 32, 64, 64))
            image.save(path)
        texts = [f"a {colour} circle and a {other} square" for colour, other in (("red", "blue"), ("blue", "red"))]
        rows.append({"id": number, "caption_1": texts[0], "caption_2": texts[1], "image_1": names[0],
                     "image_2": names[1]})  # fmt: skip
    (root / "colorswap" / "data" / "test.json").write_text(json.dumps(rows))


def test_the_micro_suite_needs_no_data(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    shown = run(capsys, "micro/compositional", "--limit", 60, "--page", page)
    assert "captions/attribute" in shown
    assert "bigram" in shown
    assert "<h3>micro</h3>" in page.read_text()


def test_a_suite_and_all_that_are_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_colorswap(tmp_path)
    (tmp_path / "my_lm.py").write_text("def make():\n    return lambda texts: [float(len(text)) for text in texts]\n")
    shown = run(capsys, "colorswap", "--data-root", tmp_path)
    line = next(line for line in shown.splitlines() if line.strip().startswith("test") and " group " in line)
    assert line.rstrip().endswith("12.0 ViT-B-32/openai")
    assert "note: test: 6 questions, the version that is known has 300" in shown
    assert run(capsys, "compositional", "--data-root", tmp_path) == shown
    sentences = [{"raw": f"an image {number}"} for number in range(5)]
    images = [{"filename": f"{number}.jpg", "split": "test", "sentences": sentences} for number in range(10)]
    (tmp_path / "flickr30k").mkdir()
    (tmp_path / "flickr30k" / "dataset_flickr30k.json").write_text(json.dumps({"images": images}))
    for number in range(10):
        Image.new("RGB", (32, 32), (25 * number, 0, 0)).save(tmp_path / "flickr30k" / f"{number}.jpg")
    page = tmp_path / "page.html"
    shown = run(capsys, "flickr30k", "--data-root", tmp_path, "--page", page)
    assert "flickr30k, micro-clip: 10 images, 50 captions" in shown
    assert "original  text to image  R@10" in shown
    assert "<h3>flickr30k: 10 images, 50 captions</h3>" in page.read_text()
    assert page.read_text().count("<td>mAP@R</td>") == 2


def test_what_is_missing_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "--data-root" in run(capsys, "aro", code=2)
    assert "is no folder" in run(capsys, "aro", "--data-root", tmp_path / "none", code=2)
    assert "holds no folder of a suite" in run(capsys, "compositional", "--data-root", tmp_path, code=2)
    assert "holds none of" in run(capsys, "coco", "--data-root", tmp_path, code=2)
    assert "--scores is for pairs" in run(capsys, "aro", "--scores", tmp_path / "a.npz", code=2)
