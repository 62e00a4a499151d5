"""An encoder is known again by all that it can be asked for, and by its code: in the cache and in run folders."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gate_runner import run
from gate_runner.errors import EncoderError, UsageError
from vision_features.encoders import load_encoder
from vision_features.encoders.blocks import Block, Blocks
from vision_features.encoders.code import digest_of_classes, digest_of_folder, digest_of_module
from vision_features.encoders.encoder import Encoder, TextTokens
from vision_features.encoders.own import adopt
from vision_features.encoders.probe import ODD_TEXTS, probe
from vision_features.encoders.spec import agree, kept
from vision_features.features import FeatureCache
from vision_features.heads import load_head

Cold = Callable[[], Path]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Write a module ``mine`` in the working folder, and forget the one that was imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def written(source: str, name: str = "mine") -> None:
        (tmp_path / f"{name}.py").write_text(source)
        for known in ("mine", "beside"):
            sys.modules.pop(known, None)
        importlib.invalidate_caches()

    return written


def folder_of(encoder: Encoder) -> Path | None:
    return FeatureCache.of(encoder, encoder.fingerprint()).folder


WITH_BLOCKS = """
from vision_features.encoders import load_encoder

def make():
    encoder = load_encoder("micro-dense")
    given = encoder.blocks
    def blocks(images):
        outputs = given(images)
        places = [block._replace(cls=block.cls * FACTOR, places=block.places * FACTOR) for block in outputs.blocks]
        return outputs._replace(blocks=tuple(places))
    encoder.blocks = blocks
    return encoder
"""


def test_a_read_out_is_not_that_of_the_code_before(module: Callable[[str], None], cold_cache: Cold) -> None:
    """Blocks that gave zeros were mended; the cache gave the zeros on, in a new run folder, too."""
    how: dict[str, Any] = {"encoder": "mine:make", "limit": 60, "readout": "block:1/mean", "show": False}
    how |= {"isolate": "none", "device": "cpu"}
    module(WITH_BLOCKS.replace("FACTOR", "0"))
    (broken,) = run("digits", output="a", **how)
    module(WITH_BLOCKS.replace("FACTOR", "1"))
    (mended,) = run("digits", output="b", **how)
    assert (broken.scores[0].value < 0.3, mended.scores[0].value > 0.6) == (True, True)
    with pytest.raises(UsageError, match=r"a holds a run of 'mine:make' with other source files"):
        run("digits", output="a", **how)


WITH_TEXTS = """
from vision_features.encoders import load_encoder

def make():
    encoder = load_encoder("micro-dense")
    given = encoder.text
    encoder.text = lambda texts: given([READ for text in texts])
    return encoder
"""


def test_a_text_side_whose_code_changed_is_another(module: Callable[[str], None], cold_cache: Cold) -> None:
    """It read two words of each text; a run folder took the mended one for the same, and gave the old score."""
    how: dict[str, Any] = {"encoder": "mine:make", "limit": 40, "isolate": "none", "show": False, "device": "cpu"}
    module(WITH_TEXTS.replace("READ", '" ".join(text.split()[:2])'))
    run("digits", output="a", **how)
    before = folder_of(load_encoder("mine:make"))
    module(WITH_TEXTS.replace("READ", "text"))
    with pytest.raises(UsageError, match="choose another --output"):
        run("digits", output="a", **how)
    assert folder_of(load_encoder("mine:make")) != before


class Block48(nn.Module):
    def __init__(self, squashes: bool) -> None:
        super().__init__()
        self.linear, self.squashes = nn.Linear(8, 8), squashes

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mixed: torch.Tensor = self.linear(tokens)
        return mixed.tanh() if self.squashes else mixed


class Net(nn.Module):
    """Both give one pooled output with one set of weights; only their blocks differ."""

    image_size = 32

    def __init__(self, squashes: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv2d(3, 8, 8, 8)
        self.blocks = nn.ModuleList([Block48(squashes) for _ in range(3)])
        self.squashes = squashes

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = self.stem(images).flatten(2).transpose(1, 2)
        for block in self.blocks:
            tokens = block(tokens) if self.squashes else block(tokens).tanh()
        return tokens.mean(dim=1)


def test_blocks_read_by_hooks_are_compared(cold_cache: Cold) -> None:
    inside, outside = (adopt(Net(squashes).eval(), "net") for squashes in (True, False))
    assert inside.fingerprint() == outside.fingerprint()
    assert inside.code == outside.code != ""
    images = torch.zeros(1, 3, 32, 32)
    assert torch.equal(inside.encode_image(images), outside.encode_image(images))
    assert folder_of(inside) != folder_of(outside)
    assert folder_of(adopt(Net(True).eval(), "net")) == folder_of(inside)


def named(change: str) -> Encoder:
    """An encoder that offers everything, of which one thing is otherwise."""

    def more(name: str) -> float:
        return 1.01 if change == name else 1.0

    def blocks(images: torch.Tensor) -> Blocks:
        tokens = images.flatten(2).transpose(1, 2)[:, :16].clone()
        tokens[0, 5] *= more("a token of a block")
        cls = tokens[:, 0] * more("a class token")
        pooled = images.mean(dim=(2, 3))
        return Blocks(pooled * more("pooled of blocks"), pooled, (Block(cls, tokens, (4, 4)),))

    def features(texts: Sequence[str]) -> torch.Tensor:
        if change in ODD_TEXTS:
            texts = [f"{text}." if text == ODD_TEXTS[change] else text for text in texts]
        elif change == "truncation":
            texts = [text[:300] for text in texts]
        sums = [[sum(map(ord, text)), len(text), sum(n * ord(sign) for n, sign in enumerate(text))] for text in texts]
        return torch.tensor(sums, dtype=torch.float32)

    def words(texts: Sequence[str]) -> TextTokens:
        mask = torch.tensor([[True, change != "a mask"]] * len(texts))
        return TextTokens(features(texts)[:, None].expand(-1, 2, -1), mask)

    return Encoder(
        "named",
        8,
        lambda images: images.mean(dim=(2, 3)) * more("image"),
        backbone=lambda images: images.mean(dim=(2, 3)) * more("backbone"),
        text=features,
        text_tokens=words,
        blocks=blocks,
    )


CHANGES = ["image", "backbone", "a token of a block", "a class token", "pooled of blocks", "a mask", "truncation"]


@pytest.mark.parametrize("change", [*CHANGES, *ODD_TEXTS])
def test_every_kind_that_can_be_asked_for_is_compared(change: str) -> None:
    same = probe(named("nothing"))
    assert agree(same, probe(named("nothing")))
    assert agree(same, json.loads(json.dumps(same)))
    assert not agree(same, probe(named(change)))


def test_a_text_that_is_refused_or_has_no_numbers_is_known_again_too() -> None:
    def strict(texts: Sequence[str]) -> torch.Tensor:
        if any(len(text) > 200 for text in texts):
            raise ValueError("too long")
        return torch.tensor([[len(text), float("nan") if text == "" else 1.0, 2.0] for text in texts])

    encoder = Encoder("strict", 8, lambda images: images.mean(dim=(2, 3)), text=strict)
    outputs = probe(encoder)
    assert [outputs[f"text:{kind}"] == [] for kind in ("long", "empty", "plain")] == [True, True, False]
    assert agree(outputs, probe(encoder))


def test_one_value_of_many_is_seen() -> None:
    output = torch.randn(2, 197, 768, generator=torch.Generator().manual_seed(0))
    changed = output.clone()
    changed[1, 40] = 0
    first, second = ({"image": kept(each)} for each in (output, changed))
    assert agree(first, {"image": kept(output + 1e-6 * torch.randn_like(output))})
    assert not agree(first, second)


def test_source_files_are_those_of_the_module_and_what_lies_beside_it(
    module: Callable[..., None], tmp_path: Path
) -> None:
    package = tmp_path / "nets"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("from .deep import depth\n")
    (package / "deep.py").write_text("depth = 3\n")
    module("width = 8\n", "beside")
    module("import json, torch, beside\n\ndef make():\n    from nets import inner\n")
    (tmp_path / "unused.py").write_text("")

    def digest() -> str:
        importlib.import_module("mine")
        return digest_of_module("mine")

    seen = {digest()}
    for file, source in [
        ("beside.py", "width = 9\n"),
        ("nets/deep.py", "depth = 4\n"),
        ("nets/__init__.py", "a = 1\n"),
    ]:
        (tmp_path / file).write_text(source)
        seen.add(digest())
    assert len(seen) == 4
    (tmp_path / "unused.py").write_text("other = 1\n")
    assert digest() in seen
    assert digest_of_module("json") != digest_of_module("vision_features.encoders.code") != ""


def test_classes_of_libraries_do_not_count() -> None:
    assert digest_of_classes(nn.Sequential(nn.Linear(2, 2), nn.ReLU())) == ""
    assert digest_of_classes(Net(True)) == digest_of_classes(Net(False)) != digest_of_classes(Block48(True))


def test_a_folders_configuration_counts_and_its_weights_do_not(tmp_path: Path) -> None:
    for name in ("tokenizer.json", "config.json", "model.safetensors", "README.md"):
        (tmp_path / name).write_text("1")
    before = digest_of_folder(tmp_path)
    (tmp_path / "model.safetensors").write_text("2")
    (tmp_path / "README.md").write_text("2")
    assert digest_of_folder(tmp_path) == before
    (tmp_path / "tokenizer.json").write_text("2")
    assert digest_of_folder(tmp_path) != before


WITH_IMAGES = """
from vision_features.encoders import load_encoder

def make():
    encoder = load_encoder("micro-clip")
    given = encoder.image
    encoder.backbone = encoder.projection = None
    encoder.image = lambda images: given(images) * FACTOR
    return encoder
"""


def test_a_head_is_not_used_behind_other_code(module: Callable[[str], None], cold_cache: Cold) -> None:
    module(WITH_IMAGES.replace("FACTOR", "1"))
    how: dict[str, Any] = {"save_heads": True, "limit": 40, "isolate": "none", "device": "cpu", "show": False}
    (head,) = run("digits", encoder="mine:make", output="kept", **how).heads
    assert load_head(head, encoder="mine:make", device="cpu").classes
    module(WITH_IMAGES.replace("FACTOR", "images.mean()"))
    with pytest.raises(EncoderError, match="when its code gave other features with the same weights"):
        load_head(head, encoder="mine:make", device="cpu")
