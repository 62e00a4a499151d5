"""No model's folder or repository runs code, or asks whether it may, and no pickled weights are read."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
WEIGHTLESS = ("Tokenizer", "Processor", "Config", "FeatureExtractor")
"""What a class that reads no weights is called."""


def loads(source: str) -> Iterator[tuple[int, str, dict[str, object]]]:
    """Line, class and constant keywords of each ``….from_pretrained(…)``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "from_pretrained":
            keywords = {
                keyword.arg: keyword.value.value
                for keyword in node.keywords
                if keyword.arg and isinstance(keyword.value, ast.Constant)
            }
            yield node.lineno, ast.unparse(node.func.value), keywords


def faults(source: str) -> list[int]:
    """Lines that load without saying that no code runs, or weights without saying that they are safetensors."""
    return [
        line
        for line, name, keywords in loads(source)
        if keywords.get("trust_remote_code") is not False
        or (not name.endswith(WEIGHTLESS) and keywords.get("use_safetensors") is not True)
    ]


def test_every_load_says_that_no_code_runs() -> None:
    count = 0
    for folder in ("packages/*/src", "packages/*/benchmarks", "experiments", "website"):
        files = list(ROOT.glob(f"{folder}/**/*.py"))
        assert files, folder
        for file in files:
            source = file.read_text()
            count += len(list(loads(source)))
            assert faults(source) == [], file
            assert "trust_remote_code=True" not in source, file
    assert count >= 14


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("AutoModel.from_pretrained(x, use_safetensors=True, trust_remote_code=False)", False),
        ("AutoTokenizer.from_pretrained(x, trust_remote_code=False)", False),
        ("AutoModel.from_pretrained(x)", True),
        ("AutoModel.from_pretrained(x, trust_remote_code=False)", True),
        ("AutoModel.from_pretrained(x, use_safetensors=True)", True),
        ("AutoModel.from_pretrained(x, use_safetensors=True, trust_remote_code=asked)", True),
        ("kinds.AutoProcessor.from_pretrained(x)", True),
        ("loader.from_pretrained(x, trust_remote_code=False)", True),
    ],
)
def test_a_load_that_does_not_say_it_is_seen(line: str, wrong: bool) -> None:
    assert bool(faults(line)) == wrong


def _runner(spec: str) -> Callable[[Path], Any]:
    def load(folder: Path) -> Any:
        from vision_features.encoders import load_encoder

        return load_encoder(f"{spec}:{folder}")

    return load


def _oven(folder: Path) -> Any:
    from oven_retrieval.generation.answers import load_generator

    linker: Any = None
    return load_generator(str(folder), linker)


def _diffusion(folder: Path) -> Any:
    from eqben_builder.diffusion.pipeline import load_pipeline

    return load_pipeline(str(folder))


def _tokenizer(folder: Path) -> Any:
    """As open_clip loads the tokenizers of its text towers."""
    import open_clip  # noqa: F401 - it is there while a model of it loads
    from transformers import AutoTokenizer

    from vision_features.encoders.open_clip_models import refused_code

    with refused_code():
        return AutoTokenizer.from_pretrained(str(folder))


LOADERS = {
    "hf": _runner("hf"),
    "hf-text": _runner("hf-text"),
    "hf-audio": _runner("hf-audio"),
    "hf-detector": _runner("hf-detector"),
    "oven": _oven,
    "diffusion": _diffusion,
    "open_clip": _tokenizer,
}


@pytest.mark.parametrize("kind", LOADERS)
def test_a_folder_with_code_neither_runs_it_nor_asks(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("diffusers" if kind == "diffusion" else "transformers")
    folder = tmp_path / "model"
    folder.mkdir()
    code = f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n"
    places = ("AutoConfig", "AutoModel", "AutoProcessor", "AutoImageProcessor")
    about = {"model_type": "own", "auto_map": dict.fromkeys(places, "code.C"), "architectures": ["X"]}
    (folder / "code.py").write_text(code)
    (folder / "config.json").write_text(json.dumps(about))
    tokenizer = {"tokenizer_class": "C", "auto_map": {"AutoTokenizer": ["code.C", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    (folder / "pipeline.py").write_text(code)
    (folder / "unet").mkdir()
    (folder / "unet" / "code.py").write_text(code)
    index = {"_class_name": ["pipeline", "Own"], "_diffusers_version": "0.30.0", "unet": ["code", "Own"]}
    (folder / "model_index.json").write_text(json.dumps(index))
    questions: list[object] = []

    def answer(question: object = "") -> str:
        questions.append(question)
        return "y"

    monkeypatch.setattr("builtins.input", answer)
    with pytest.raises(Exception, match=r"(?s).+") as refused:
        LOADERS[kind](folder)
    assert not isinstance(refused.value, ImportError)
    assert questions == []
    assert not (tmp_path / "ran").exists()
