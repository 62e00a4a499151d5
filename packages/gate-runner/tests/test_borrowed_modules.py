"""Modules of the user's that are handed over: evaluation mode, device, and weights that stay where a check fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import nn

from gate_runner import adapt
from gate_runner.errors import EncoderError, UsageError
from vision_features import load_head
from vision_features.encoders.encoder import Encoder
from vision_features.encoders.own import adopt
from vision_features.encoders.tuned import load_tuned, save_tuned
from vision_features.heads import embed


class Mine(nn.Module):
    """A batch norm that learns whenever it is in training mode, and a dropout."""

    image_size = 32

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.conv = nn.Conv2d(3, 8, 4, stride=4)
        with torch.no_grad():
            for weight in self.conv.parameters():
                weight.copy_(torch.randn(weight.shape, generator=generator))
        self.norm, self.drop = nn.BatchNorm2d(8), nn.Dropout(0.5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.drop(self.norm(self.conv(images)))
        return features.flatten(1)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name, colour in (("blue", (60, 60, 200)), ("red", (200, 60, 60))):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(8):
            image = Image.new("RGB", (40, 32), colour)
            image.putpixel((number, 5), (255, 255, 255))
            image.save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


def state_of(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_a_head_predicts_in_evaluation_mode_whatever_mode_its_module_is_in(photos: Path, tmp_path: Path) -> None:
    adapt(photos, encoder=Mine(), save=tmp_path / "head", output=tmp_path / "run", device="cpu")
    files = sorted(photos.rglob("*.png"))
    fresh = Mine()
    before = state_of(fresh)
    head = load_head(tmp_path / "head", encoder=fresh, device="cpu")
    first = [made.probabilities for made in head.predict(files)]
    fresh.train()  # somebody goes on training it
    assert [made.probabilities for made in head.predict(files)] == first
    assert fresh.training
    assert same(state_of(fresh), before)
    evaluated = load_head(tmp_path / "head", encoder=Mine().eval(), device="cpu")
    assert [made.probabilities for made in evaluated.predict(files)] == first


def test_the_device_is_that_which_was_named(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapt(photos, encoder=Mine(), save=tmp_path / "head", output=tmp_path / "run", device="cpu")
    moved: list[str] = []
    plain = Encoder.to

    def noting(self: Encoder, device: str) -> None:
        moved.append(device)
        plain(self, "cpu")

    monkeypatch.setattr(Encoder, "to", noting)
    monkeypatch.setattr("vision_features.encoders.loading.device_for", lambda device: device)
    load_head(tmp_path / "head", encoder=Mine(), device="cuda:1")
    assert moved == ["cuda:1"]
    embed(photos, tmp_path / "f.npz", encoder=adopt(Mine(), "mine"), device="cuda:0")
    assert moved == ["cuda:1", "cuda:0"]
    monkeypatch.undo()
    with pytest.raises(UsageError, match="GPU"):
        load_head(tmp_path / "head", encoder=Mine(), device="cuda:7")


def test_a_module_is_asked_where_it_lies() -> None:
    assert adopt(Mine().to("meta"), "mine").device.type == "meta"


def test_features_are_written_in_evaluation_mode_and_the_module_is_left_as_it_was(photos: Path, tmp_path: Path) -> None:
    module = Mine()
    module.conv.eval()
    before = state_of(module)
    embed(photos, tmp_path / "f.npz", encoder=adopt(module, "mine"), device="cpu")
    assert same(state_of(module), before)
    assert (module.training, module.conv.training, module.norm.training) == (True, False, True)
    assert all(weight.requires_grad for weight in module.parameters())


@pytest.mark.parametrize("call", ["encode_image", "encode_blocks", "encode_patches", "encode_text"])
def test_every_way_of_asking_an_encoder_is_in_evaluation_mode(call: str) -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 2), nn.Dropout(0.5))
    modes: list[bool] = []

    def answer(inputs: Any) -> Any:
        modes.append(module.training or module[1].training or torch.is_grad_enabled())
        raise UsageError("seen")

    capability = call.removeprefix("encode_")
    encoder = Encoder("own", 8, answer, module=module, **({} if capability == "image" else {capability: answer}))
    inputs: Any = ["a"] if call == "encode_text" else torch.zeros(1, 3, 8, 8)
    with pytest.raises(UsageError, match="seen"):
        getattr(encoder, call)(inputs)
    assert modes == [False]
    assert module.training
    assert module[1].training


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    trained = adopt(Mine(), "mine")
    assert trained.module is not None
    start = state_of(trained.module)
    with torch.no_grad():
        trained.module.get_parameter("conv.weight").add_(1)
    return save_tuned(trained, start, tmp_path / "tuned", {})


def spoil_fingerprint(folder: Path) -> None:
    card = json.loads((folder / "card.json").read_text())
    card["encoder"]["fingerprint"] = "0" * 64
    (folder / "card.json").write_text(json.dumps(card))


def spoil_shapes(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "encoder.safetensors")
    name = min(weights)
    save_file({**weights, name: torch.zeros(1, 2, 3)}, folder / "encoder.safetensors")


@pytest.mark.parametrize("spoil", [spoil_fingerprint, spoil_shapes])
def test_a_module_keeps_its_weights_where_trained_ones_are_refused(tuned: Path, spoil: Callable[[Path], None]) -> None:
    taken = load_tuned(tuned, Mine())
    assert taken.module is not None
    assert not taken.module.training
    assert not same(state_of(taken.module), state_of(Mine()))
    spoil(tuned)
    module = Mine()
    before = state_of(module)
    with pytest.raises(EncoderError, match=r"was changed|cannot be used"):
        load_tuned(tuned, module)
    assert same(state_of(module), before)
