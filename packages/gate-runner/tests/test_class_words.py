"""Words for classes: files of names, prompt sets, ImageNet's ids, templates and knowledge, in adapt and in own data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import gate_runner
import vision_features
from gate_runner.benchmarks.own import own_benchmark
from gate_runner.cli import main
from gate_runner.errors import UsageError
from knowledge_prompts import ClassWords

IDS = ("n01440764", "n01514859")
SHAPES = ("circle", "square", "heart")


def picture(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (32, 32, 3), np.uint8)).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for label, name in enumerate(("c1", "c2", "c3")):
        for index in range(4):
            picture(tmp_path / "mine" / name / f"{index}.png", 10 * label + index)
    return tmp_path / "mine"


def test_a_file_chooses_no_plug_in(tmp_path: Path) -> None:
    about = '[benchmark]\nid = "mine"\n[data]\nkind = "folders"\n[classes]\nknowledge = ["somebodys=texts.json"]\n'
    (tmp_path / "benchmark.toml").write_text(about)
    with pytest.raises(UsageError, match=r"source of knowledge that .*benchmark\.toml may choose: 'somebodys'"):
        own_benchmark(tmp_path / "benchmark.toml")


def test_a_templates_mean_is_the_mean_on_the_sphere(folder: Path, tmp_path: Path) -> None:
    import gate_runner
    from vision_features.encoders import load_encoder

    encoder = load_encoder("micro-dense")
    templates = ("a {}", "a red {}", "a small {}")
    rows = torch.stack(
        [encoder.encode_text([template.format(name) for name in ("c1", "c2", "c3")]) for template in templates]
    )
    mean = torch.nn.functional.normalize(torch.nn.functional.normalize(rows, dim=-1).mean(dim=0), dim=-1)
    for template, texts in ((templates, mean), (templates[1:2], torch.nn.functional.normalize(rows[1], dim=-1))):
        done = gate_runner.adapt(
            folder, "zeroshot", encoder=encoder, words=ClassWords(template), output=tmp_path / str(len(template))
        )
        head = vision_features.load_head(done.heads[0], encoder=encoder)
        torch.testing.assert_close(head.module.weight.detach(), texts)


def test_the_command_takes_sets_names_and_knowledge(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names, knowledge = tmp_path / "names.txt", tmp_path / "more.json"
    names.write_text("".join(f"c{number} {name}\n" for number, name in enumerate(SHAPES, start=1)))
    knowledge.write_text(json.dumps({"circle": ["round"], "heart": ["like two arcs"]}))
    words = ["adapt", "zeroshot", str(folder), "--words", str(names), "--knowledge", str(knowledge)]
    words += ["--templates", "a {}", "--templates", "one {}", "--save", str(tmp_path / "head")]
    with pytest.raises(SystemExit) as ended:
        main(words)
    out = capsys.readouterr()
    assert ended.value.code == 0, out.err
    assert "classes are called circle, square, heart in " in out.out
    assert "2 of 3 with knowledge" in out.out
    card = json.loads((tmp_path / "head" / "card.json").read_text())
    assert card["classes"] == ["c1", "c2", "c3"]
    assert card["prompts"][1] == "a square | one square"
    assert "round" in card["prompts"][0]
    with pytest.raises(SystemExit) as ended:
        main(["adapt", "zeroshot", str(folder), "--prompts", "imagenet"])
    assert ended.value.code == 2
    assert "lacks 3 of 3 classes, such as 'c1'" in capsys.readouterr().err


def test_own_data_take_the_same(folder: Path, tmp_path: Path) -> None:
    (folder.parent / "words.json").write_text(json.dumps(dict(zip(("c1", "c2", "c3"), SHAPES, strict=True))))
    (folder.parent / "set.json").write_text(json.dumps({"templates": ["a {}", "one {}"], "classes": list(SHAPES)}))
    (folder.parent / "more.json").write_text(json.dumps({"circle": ["round"]}))
    path = folder.parent / "z.toml"
    path.write_text(
        '[benchmark]\nid = "z"\ntask = "zero-shot"\n[data]\nkind = "folders"\nroot = "mine"\n'
        '[classes]\nwords = "words.json"\nprompts = "set.json"\nknowledge = ["more.json"]\n'
    )
    (result,) = gate_runner.run(str(path), output=tmp_path / "run", show=False)
    assert result.status == "ok", result.reason
    assert result.training["prompts_encoded"] == 5  # a descriptor is a whole text
    assert result.training["prompts"].endswith("set.json")
    path.write_text(path.read_text().replace('"set.json"', '"imagenet"'))
    (result,) = gate_runner.run(str(path), output=tmp_path / "again", show=False)
    assert result.status == "failed"
    assert "prompt set 'imagenet-1k' lacks" in result.reason
