"""Encoders whose images are not square: the libraries' own forward, the places of dense heads, and what is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from gate_data import load as load_data
from gate_data.data import Data, Split
from gate_data.own import guess, write_benchmark
from gate_data.pictures import Pictures
from gate_data.readers.decode import decode
from gate_runner import Settings, adapt, run
from gate_runner.benchmarks import find_benchmark
from gate_runner.choosing.choice import choose, encoders_in
from gate_runner.errors import EncoderError, UsageError
from gate_runner.tasks import Job, dense_readouts, run_task
from vision_features import load_head, load_tuned
from vision_features.encoders import load_encoder
from vision_features.encoders.blocks import Block, Blocks, grid_of
from vision_features.encoders.encoder import Encoder
from vision_features.encoders.own import adopt
from vision_features.encoders.spec import EncoderSpec
from vision_features.encoders.timm_models import without_classifier
from vision_features.features import FeatureCache
from vision_features.features.inputs import how_read

ROUNDED = {"rtol": 0, "atol": 64 * torch.finfo().eps}


@pytest.fixture
def photograph(tmp_path: Path) -> Path:
    """A wide image whose halves differ."""
    pixels = np.random.default_rng(0).integers(0, 256, (120, 260, 3), dtype=np.uint8)
    pixels[:, :130, 0] = 250
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    return tmp_path / "wide.png"


def transformed(encoder: Encoder, file: Path) -> Tensor:
    """The image as the encoder's own transform makes it."""
    assert encoder.transform is not None
    return torch.from_numpy(encoder.transform(decode(str(file))))[None]


@pytest.mark.parametrize(("name", "grid"), [("test_vit", (6, 10)), ("test_resnet", (3, 5))])
def test_timm_by_its_own_forward(name: str, grid: tuple[int, int], photograph: Path) -> None:
    import timm
    from timm.data import create_transform, resolve_model_data_config

    encoder = load_encoder(f"timm:{name}@96x160/random:3")
    torch.manual_seed(3)
    model: Any = timm.create_model(name).eval()
    if hasattr(model, "set_input_size"):
        model.set_input_size(img_size=(96, 160))
    model.load_state_dict(encoder.module.state_dict())  # type: ignore[union-attr]
    library: Any = create_transform(**resolve_model_data_config(model, args={"input_size": (3, 96, 160)}))
    pixels = library(Image.open(photograph))[None]
    shown = transformed(encoder, photograph)
    torch.testing.assert_close(encoder.prepare(shown), pixels, **ROUNDED)
    with torch.inference_mode():
        expected = model.forward_head(model.forward_features(pixels), pre_logits=True)
        _, blocks = model.forward_intermediates(pixels, norm=False)
    torch.testing.assert_close(encoder.encode_image(shown), expected, rtol=1e-4, atol=1e-5)
    patches = encoder.encode_patches(shown)
    assert (encoder.image_size, patches.grid) == ((96, 160), grid)
    torch.testing.assert_close(patches.tokens, blocks[-1].flatten(2).transpose(1, 2), rtol=1e-4, atol=1e-5)
    assert encoder.encode_blocks(shown).blocks[-1].grid == grid


def test_a_timm_model_that_learnt_from_pictures_that_are_not_square() -> None:
    import timm

    model: Any = timm.create_model("test_vit", img_size=(96, 64)).eval()
    model.pretrained_cfg = {**model.pretrained_cfg, "input_size": (3, 96, 64), "fixed_input_size": True}
    encoder = without_classifier(EncoderSpec("timm:people", "timm", "people", None), model)
    assert (encoder.image_size, encoder.describe()["image_size"]) == ((96, 64), [96, 64])
    assert encoder.encode_patches(torch.zeros(1, 3, 96, 64, dtype=torch.uint8)).grid == (6, 4)


def tiny_clip(folder: Path, size: Any) -> None:
    import open_clip

    texts = {"context_length": 77, "vocab_size": 49408, "width": 32, "layers": 1, "heads": 2}
    vision = {"image_size": size, "patch_size": 16, "head_width": 16, "width": 32, "layers": 2}
    config = {"embed_dim": 16, "vision_cfg": vision, "text_cfg": texts}
    (folder / "tiny-wide.json").write_text(json.dumps(config))
    open_clip.add_model_config(folder / "tiny-wide.json")


@pytest.mark.parametrize(("own", "spec"), [([32, 64], ""), (48, "@32x64")])
def test_open_clip_by_its_own_forward(own: Any, spec: str, photograph: Path, tmp_path: Path) -> None:
    import open_clip

    tiny_clip(tmp_path, own)
    encoder = load_encoder(f"open_clip:tiny-wide{spec}/random")
    assert encoder.image_size == (32, 64)
    model, _, library = open_clip.create_model_and_transforms("tiny-wide", force_image_size=(32, 64))
    model.eval().load_state_dict(encoder.module.state_dict())  # type: ignore[union-attr]
    pixels = library(Image.open(photograph))[None]  # type: ignore[operator]
    shown = transformed(encoder, photograph)
    torch.testing.assert_close(encoder.prepare(shown), pixels, **ROUNDED)
    with torch.inference_mode():
        expected = model.encode_image(pixels)
    torch.testing.assert_close(encoder.encode_image(shown), expected, rtol=1e-4, atol=1e-5)
    assert encoder.encode_patches(shown).grid == encoder.encode_blocks(shown).blocks[0].grid == (2, 4)


@pytest.mark.parametrize("own", [[32, 64], 48])
def test_transformers_by_its_own_forward(own: Any, photograph: Path, tmp_path: Path) -> None:
    """The second learnt from squares: its places are interpolated to the shape of its processor's images."""
    transformers = pytest.importorskip("transformers")
    side = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = transformers.ViTConfig(**side, image_size=own, patch_size=8)
    model = transformers.ViTModel(config).eval()
    processor = transformers.ViTImageProcessor(size={"height": 32, "width": 64})
    for part in (model, processor):
        part.save_pretrained(tmp_path / "model")
    encoder = load_encoder(f"hf:{tmp_path / 'model'}")
    assert encoder.image_size == (32, 64)
    pixels = processor(images=Image.open(photograph), return_tensors="pt")["pixel_values"]
    shown = transformed(encoder, photograph)
    torch.testing.assert_close(encoder.prepare(shown), pixels, rtol=0, atol=1 / 255)
    with torch.inference_mode():
        expected = model(pixel_values=encoder.prepare(shown), interpolate_pos_encoding=own == 48)
    torch.testing.assert_close(encoder.encode_image(shown), expected.pooler_output, rtol=1e-4, atol=1e-5)
    patches = encoder.encode_patches(shown)
    assert patches.grid == encoder.encode_blocks(shown).blocks[0].grid == (4, 8)
    torch.testing.assert_close(patches.tokens, expected.last_hidden_state[:, 1:], rtol=1e-4, atol=1e-5)


def test_places_among_tokens() -> None:
    """Class tokens and registers come before them, whatever the image's shape."""
    assert [grid_of(count, (224, 224)) for count in (196, 197, 201)] == [(14, 14)] * 3
    assert [grid_of(count, (224, 384)) for count in (336, 337, 341)] == [(14, 24)] * 3
    assert grid_of(192 * 2, (1024, 512)) == (26, 13)


class Columns(nn.Module):
    """Mean colours of the image's 4 x 8 places; pooled, of the whole image."""

    image_size = (32, 64)

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def encode_image(self, images: Tensor) -> Tensor:
        return self.encode_patches(images)[0].flatten(1)

    def encode_patches(self, images: Tensor) -> tuple[Tensor, tuple[int, int]]:
        return F.adaptive_avg_pool2d(images, (4, 8)).flatten(2).transpose(1, 2) * self.scale, (4, 8)


def write_maps(folder: Path, count: int) -> Path:
    """Wide images of 4 x 8 cells of three colours, and maps of which is where."""
    colours = np.array([[220, 40, 40], [40, 220, 40], [40, 40, 220]], np.uint8)
    rows = ["image,label,split"]
    for number in range(count):
        cells = np.random.default_rng(number).integers(0, 3, (4, 8)).astype(np.uint8).repeat(8, 0).repeat(8, 1)
        Image.fromarray(colours[cells]).save(folder / f"{number}.png")
        Image.fromarray(cells).save(folder / f"map{number}.png")
        rows.append(f"{number}.png,map{number}.png,{('train', 'train', 'validation', 'test')[number % 4]}")
    (folder / "all.csv").write_text("\n".join(rows) + "\n")
    about = '[benchmark]\nid = "cells"\ntask = "segmentation"\n[data]\nkind = "table"\ntable = "all.csv"\n'
    words = '[classes]\nnames = ["red", "green", "blue"]\n[splits]\ncolumn = "split"\n[training]\nsteps = 2\n'
    (folder / "benchmark.toml").write_text(about + words)
    return folder / "benchmark.toml"


def test_maps_lie_over_their_pictures(tmp_path: Path) -> None:
    """Of images that are not square, whatever the size that they are read in."""
    file = write_maps(tmp_path, 8)
    for size in (32, (32, 64), (64, 32)):
        image, classes = load_data(file, size=size).train[0]
        high, wide = image.shape[1:]
        assert classes.shape == (64, 64)
        middles = classes[8::16, 4::8]
        assert (high, wide) == ((32, 32) if size == 32 else size)
        assert torch.equal(image[:, high // 8 :: high // 4, wide // 16 :: wide // 8].argmax(0), middles.long())


def scenes(count: int, seed: int) -> Split:
    """Images of 4 x 8 cells of three colours, and maps of which is where."""
    cells = torch.randint(0, 3, (count, 4, 8), generator=torch.Generator().manual_seed(seed))
    maps = cells.repeat_interleave(4, 1).repeat_interleave(4, 2)
    return Split((F.one_hot(maps, 3).permute(0, 3, 1, 2) * 200).to(torch.uint8), maps)


@pytest.mark.parametrize("readout", ["last", "block:1/places"])
def test_a_head_for_maps_puts_places_where_they_are(readout: str) -> None:
    """Every place of the image has an answer of its own, so a grid that is turned scores like chance."""
    data = Data(scenes(96, 0), scenes(16, 1), scenes(16, 2), ("red", "green", "blue"))
    encoder = adopt(Columns(), "columns")
    encoder.blocks = lambda images: Blocks(images.mean((2, 3)), None, (Block(None, *encoder.patches(images)),))  # type: ignore[misc]
    numbers = {"steps": 40, "validate_every": 20, "batch_size": 16, "lr": 2e-3, "readout": readout}
    benchmark = replace(find_benchmark("ade20k"), training=numbers)
    outcome = run_task(Job(encoder, benchmark, data, Settings(device="cpu", recipe_fields={"head_width": 32})))
    assert outcome.scores[0].value > 0.9 > 0.5 > outcome.scores[0].chance


def test_places_are_judged_where_they_are() -> None:
    data = Data(scenes(60, 0), scenes(30, 1), scenes(5, 2), ("red", "green", "blue"))
    encoder = adopt(Columns(), "columns")
    encoder.blocks = lambda images: Blocks(images.mean((2, 3)), None, (Block(None, *encoder.patches(images)),))  # type: ignore[misc]
    benchmark = replace(find_benchmark("ade20k"), training={"readout": "auto"})
    worth = dense_readouts.worth(Job(encoder, benchmark, data))
    assert min(judged.score for judged in worth.values()) > 0.99


def test_a_run_on_own_maps(tmp_path: Path) -> None:
    file = write_maps(tmp_path, 16)
    (result,) = run(str(file), encoder=Columns(), output=tmp_path / "run", show=False).results
    assert result.status == "ok", result.reason
    assert result.encoder["image_size"] == [32, 64]
    (again,) = run(str(file), encoder=Columns(), output=tmp_path / "run", show=False).results
    assert again.scores == result.scores


def test_caches_of_sizes_are_apart(tmp_path: Path) -> None:
    square = Encoder("means", (32, 32), lambda images: images.mean((2, 3)))
    wide = Encoder("means", (32, 64), lambda images: images.mean((2, 3)))
    again = Encoder("means", (32, 32), square.image)
    folders = [FeatureCache.of(encoder, "0" * 64, root=tmp_path).folder for encoder in (square, wide, again)]
    assert all(folders)
    assert folders[0] == folders[2] != folders[1]
    expected = b"{'side': 32, 'fit': 'crop', 'video': False, 'transparency': 'white', 'after': None} (3, 32, 32)"
    assert how_read(Pictures.of(["a.png"], 32)) == expected
    assert how_read(Pictures.of(["a.png"], (32, 64))) != expected


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes that differ in which half of a wide image is bright."""
    for label in ("left", "right"):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(14):
            pixels = np.random.default_rng([number, len(label)]).integers(0, 120, (40, 80, 3), dtype=np.uint8)
            pixels[:, slice(0, 40) if label == "left" else slice(40, 80)] += 100
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{number}.png")
    return tmp_path / "photos"


def test_a_saved_head_and_its_onnx_file(photos: Path, tmp_path: Path) -> None:
    adapt(photos, "probe", encoder="timm:test_resnet@64x128/random", save=tmp_path / "head", output=tmp_path / "run")
    head = load_head(tmp_path / "head")
    assert head.card["encoder"]["image_size"] == [64, 128]
    predicted = list(head.predict([photos / "left" / "0.png", photos / "right" / "1.png"]))
    assert [prediction.classes for prediction in predicted] == [("left",), ("right",)]
    with pytest.raises(EncoderError, match=r"with image_size \[64, 128\], not 64"):
        load_head(tmp_path / "head", encoder="timm:test_resnet@64/random")
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    from vision_features.heads.onnx import export_onnx

    assert export_onnx(head, tmp_path / "head.onnx") < 1e-4
    (pixels,) = runtime.InferenceSession(str(tmp_path / "head.onnx")).get_inputs()
    assert pixels.shape[1:] == [3, 64, 128]


def test_a_trained_encoder_is_loaded_in_its_size(photos: Path, tmp_path: Path) -> None:
    settings = Settings(
        tune="full", save_encoders=True, recipe_fields={"steps": "2", "batch_size": "4", "augment": "crop-flip"}
    )
    output = tmp_path / "run"
    spec = "timm:test_vit@32x64/random"
    write_benchmark(guess(photos).values, photos / "benchmark.toml")
    (result,) = run(str(photos / "benchmark.toml"), encoder=spec, output=output, settings=settings, show=False).results
    assert result.status == "ok", result.reason
    (folder,) = (output / "encoders").iterdir()
    assert load_encoder(f"tuned:{folder}").image_size == (32, 64)
    assert json.loads((folder / "card.json").read_text())["encoder"]["image_size"] == [32, 64]
    with pytest.raises(EncoderError, match=r"trained on images with image_size|trained from"):
        load_tuned(folder, load_encoder("timm:test_vit@64x32/random"))


def test_encoders_of_different_sizes_are_chosen_from(own: str, tmp_path: Path) -> None:
    """One that fails does not keep the others from being judged."""
    specs = (*encoders_in("timm:test_resnet@32x64/random,timm:test_resnet@64/random"), f"{own}:raises")
    choice = choose("digits@knn", specs, tmp_path, Settings(limit=40, readout=("auto",)))
    failed = choice.candidates[-1]
    assert {candidate.encoder for candidate in choice.candidates[:2] if candidate.value} == set(specs[:2])
    assert (failed.encoder, failed.verdict) == (specs[2], "failed")
    assert "KeyError: 'weights'" in failed.reason


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("timm:test_vit@96x0/random", "whole number of pixels from 16 to 4096 after '@', or HEIGHTxWIDTH"),
        ("timm:test_vit@96x96x96/random", "or HEIGHTxWIDTH"),
        ("timm:test_vit@96xwide/random", "or HEIGHTxWIDTH"),
        ("timm:test_vit@x96/random", "or HEIGHTxWIDTH"),
        (
            "timm:test_vit@96x100/random",
            "100 pixels are not divided by patches of 16; the nearest sizes are 96 and 112",
        ),
        (
            "open_clip:ViT-B-32@64x80/random",
            "80 pixels are not divided by patches of 32; the nearest sizes are 64 and 96",
        ),
        ("open_clip:RN50@224x320/random", "open_clip's ResNets take square images only"),
        ("timm:levit_128s@224x256/random", "takes images of 224 x 224 pixels, and no others"),
    ],
)
def test_sizes_that_cannot_be(spec: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        load_encoder(spec)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("size", [0, (32, 0), (32, 32, 3), "large", (32.5, 32)])
def test_sizes_of_an_own_module_that_cannot_be(size: Any) -> None:
    module = Columns()
    module.image_size = size
    with pytest.raises(EncoderError, match="'mine': image_size: expected the side of a square in pixels"):
        adopt(module, "mine")


def test_a_square_is_a_square_however_it_is_written() -> None:
    module = Columns()
    module.image_size = [64, 64]  # type: ignore[assignment]
    assert adopt(module, "mine").image_size == 64
    assert load_encoder("timm:test_vit@96x96/random").image_size == 96
