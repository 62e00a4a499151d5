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
    """Lines that load without saying that no code runs, or weights but by `wary_files.checkpoints.whole`.

    A pipeline loads its parts itself, but for those that it is given; it says that its weights are safetensors.
    """
    direct = [
        line
        for line, name, keywords in loads(source)
        if keywords.get("trust_remote_code") is not False
        or not name.endswith((*WEIGHTLESS, "Pipeline"))
        or (name.endswith("Pipeline") and keywords.get("use_safetensors") is not True)
    ]
    nodes = list(ast.walk(ast.parse(source)))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    fine = {id(call.func) for call in calls}
    fine |= {id(call.args[0]) for call in calls if ast.unparse(call.func) == "whole" and call.args}
    passed = [
        node.lineno
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr == "from_pretrained" and id(node) not in fine
    ]
    return direct + passed


def test_every_load_says_that_no_code_runs() -> None:
    count = 0
    for folder in ("packages/*/src", "packages/*/benchmarks", "experiments", "website"):
        files = list(ROOT.glob(f"{folder}/**/*.py"))
        assert files, folder
        for file in files:
            source = file.read_text()
            assert "trust_remote_code=True" not in source, file
            if "from_pretrained" not in source:  # which both look for, in a tree that takes seconds to build for all
                continue
            count += len(list(loads(source)))
            assert faults(source) == [], file
    assert count >= 9


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("whole(AutoModel.from_pretrained, x)", False),
        ("keep(AutoModel.from_pretrained, x)", True),
        ("load = AutoModel.from_pretrained", True),
        ("AutoModel.from_pretrained(x, use_safetensors=True, trust_remote_code=False)", True),
        ("Pipeline.from_pretrained(x, use_safetensors=True, trust_remote_code=False)", False),
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


def _matching(folder: Path) -> Any:
    from eqben_builder.scoring.matching_models import load_matching

    return load_matching(f"hf-itm:{folder}")


LOADERS = {
    "hf": _runner("hf"),
    "hf-text": _runner("hf-text"),
    "hf-audio": _runner("hf-audio"),
    "hf-detector": _runner("hf-detector"),
    "oven": _oven,
    "matching": _matching,
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


_SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
_PICTURES = {**_SMALL, "image_size": 32, "patch_size": 16}


def _of(kind: str) -> Any:
    """A small model of random weights."""
    import transformers

    words = {**_SMALL, "vocab_size": 12, "max_position_embeddings": 8}
    if kind == "hf":
        return transformers.CLIPModel(
            transformers.CLIPConfig(text_config=words, vision_config=_PICTURES, projection_dim=8)
        )
    if kind == "hf-text":
        return transformers.BertModel(transformers.BertConfig(**words))
    if kind == "hf-audio":
        sizes = {f"{side}_{name}": 1 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")}
        ends = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"), 1)
        wide = {"encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "num_mel_bins": 4, "max_source_positions": 8}
        return transformers.WhisperModel(
            transformers.WhisperConfig(**sizes, **ends, **wide, d_model=16, vocab_size=12, max_target_positions=8)
        )
    if kind == "hf-detector":
        return transformers.YolosForObjectDetection(
            transformers.YolosConfig(**{**_PICTURES, "image_size": [32, 32]}, num_detection_tokens=4)
        )
    if kind == "oven":
        return transformers.GPT2LMHeadModel(
            transformers.GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=12, n_positions=8)
        )
    text = {**words, "encoder_hidden_size": 16, "bos_token_id": 2, "eos_token_id": 3, "sep_token_id": 3}
    return transformers.BlipForImageTextRetrieval(
        transformers.BlipConfig(text_config=text, vision_config=_PICTURES, projection_dim=8, image_text_hidden_size=8)
    )


@pytest.mark.parametrize("kind", ["hf", "hf-text", "hf-audio", "hf-detector", "oven", "matching"])
def test_a_checkpoint_that_lacks_weights_is_refused_by_the_name_of_one(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from safetensors.torch import load_file, save_file

    _of(kind).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    weights = load_file(file)
    name = sorted(name for name in weights if name.endswith("weight") and "pooler" not in name)[0]
    del weights[name]
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ValueError, match=f"lacks weights of .*{name.split('.')[-2]}.weight; they would be random"):
        LOADERS[kind](tmp_path)
