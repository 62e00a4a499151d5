"""Pixels of the model's own transform: those that the library itself makes, and no scores of another way mixed in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from gate_data.data import Data, Split
from gate_data.pictures import Pictures
from gate_runner.benchmarks import find_benchmark
from gate_runner.tasks.features import rows_of
from gate_runner.tasks.job import Job
from vision_features.encoders import load_encoder
from vision_features.encoders.encoder import Encoder
from vision_features.encoders.transforms import of_processor, of_steps
from vision_features.features import FeatureCache, encode_pictures


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Images with edges and noise, wide, tall and small."""
    folder, rng = tmp_path_factory.mktemp("photographs"), np.random.default_rng(0)
    files = []
    for number, (width, height) in enumerate([(500, 375), (301, 640), (40, 90)]):
        coarse = rng.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8)
        large = Image.fromarray(coarse).resize((width, height), Image.Resampling.NEAREST)
        files.append(folder / f"{number}.jpg")
        large.save(files[-1], quality=92)
    return files


def shown_to(encoder: Encoder, files: list[Path]) -> torch.Tensor:
    """What reaches the model when these files are encoded."""
    batches: list[torch.Tensor] = []

    def image(images: torch.Tensor) -> torch.Tensor:
        batches.append(images)
        return images.mean(dim=(2, 3))

    encoder.image = image
    pictures = Pictures.of(files, side=encoder.image_size)
    encode_pictures(FeatureCache(), encoder, pictures, "pooled", "test", 8, transform=encoder.transform)
    return torch.cat(batches)


@pytest.mark.parametrize("name", ["resnet18", "tf_efficientnet_lite0", "vit_tiny_patch16_224", "convnext_atto@160"])
def test_timm(name: str, photographs: list[Path]) -> None:
    import timm
    from timm.data import create_transform, resolve_model_data_config

    encoder = load_encoder(f"timm:{name}/random")
    architecture, _, side = name.partition("@")
    model: Any = timm.create_model(architecture)
    config = resolve_model_data_config(model, args={"input_size": (3, int(side), int(side))} if side else None)
    library: Any = create_transform(**config, is_training=False)
    expected = torch.stack([library(Image.open(file).convert("RGB")) for file in photographs])
    torch.testing.assert_close(shown_to(encoder, photographs), expected, rtol=0, atol=8 * torch.finfo().eps)
    assert "CenterCrop" in encoder.describe()["transform"]


@pytest.mark.parametrize("name", ["RN50", "ViT-B-32", "ViT-B-16-SigLIP"])
def test_open_clip(name: str, photographs: list[Path]) -> None:
    from open_clip import get_model_config
    from open_clip.transform import PreprocessCfg, image_transform_v2, merge_preprocess_dict

    config = get_model_config(name)
    assert config is not None
    size = config["vision_cfg"]["image_size"]
    how = merge_preprocess_dict(PreprocessCfg(size=size), {})
    library: Any = image_transform_v2(PreprocessCfg(**how), is_train=False)
    transform = of_steps(library, size)
    assert transform is not None
    mean, std = how["mean"], how["std"]
    encoder = Encoder(name, size, lambda images: images, mean=mean, std=std, transform=transform)
    expected = torch.stack([library(Image.open(file)) for file in photographs])
    torch.testing.assert_close(shown_to(encoder, photographs), expected, rtol=0, atol=8 * torch.finfo().eps)


@pytest.mark.parametrize("name", ["CLIPImageProcessor", "ViTImageProcessor", "BitImageProcessor"])
def test_transformers(name: str, photographs: list[Path]) -> None:
    transformers: Any = pytest.importorskip("transformers")
    processor = getattr(transformers, name)()
    transform = of_processor(processor, 224)
    assert transform is not None
    mean, std = processor.image_mean, processor.image_std
    encoder = Encoder(name, 224, lambda images: images, mean=mean, std=std, transform=transform)
    processors = [processor(images=Image.open(file).convert("RGB"), return_tensors="pt") for file in photographs]
    expected = torch.cat([inputs["pixel_values"] for inputs in processors])
    torch.testing.assert_close(shown_to(encoder, photographs), expected, rtol=0, atol=16 * torch.finfo().eps)


def test_what_is_not_square_is_said_and_squares_are_taken(caplog: pytest.LogCaptureFixture) -> None:
    from torchvision import transforms

    steps = transforms.Compose([transforms.Resize(32), transforms.ToTensor()])
    assert of_steps(steps, 32) is None
    assert "it makes" in caplog.text
    assert "not 32 x 32" in caplog.text


def test_features_of_one_way_are_not_those_of_another(photographs: list[Path], tmp_path: Path) -> None:
    encoder = load_encoder("timm:resnet18/random")
    cache, pictures = FeatureCache(tmp_path / "encoder"), Pictures.of(photographs, side=224)
    own = encode_pictures(cache, encoder, pictures, "pooled", "test", 8, transform=encoder.transform)[:]
    squares = encode_pictures(cache, encoder, pictures, "pooled", "test", 8)[:]
    assert not torch.allclose(own, squares)
    assert cache.encoded["pooled"] == 6
    torch.testing.assert_close(squares, encoder.encode_image(pictures[:]), rtol=1e-4, atol=1e-4)


def test_a_read_out_sees_the_pixels_of_the_plain_run(photographs: list[Path]) -> None:
    """Read-outs were of squares: the same folder had two answers."""
    encoder = load_encoder("timm:resnet18/random")
    part = Split(Pictures.of(photographs, side=224), torch.tensor([0, 1, 0]))
    data = Data(part, part, part, ["a", "b"])
    plain = Job(encoder, find_benchmark("digits"), data)
    read = Job(encoder, find_benchmark("digits@readout=last"), data)
    ours, theirs = (rows_of(job, part, "pooled", "test")[:] for job in (read, plain))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_run_says_which_way_and_refuses_to_mix(tmp_path: Path, photographs: list[Path]) -> None:
    import gate_runner
    from gate_runner.errors import UsageError

    for part, count in (("train", 4), ("test", 2)):
        for label in ("a", "b"):
            (tmp_path / "birds" / part / label).mkdir(parents=True)
            for number in range(count):
                shade = Image.open(photographs[number % 3]).convert("L" if label == "a" else "RGB")
                shade.rotate(7 * number).save(tmp_path / "birds" / part / label / f"{number}.png")
    own = str(tmp_path / "birds" / "benchmark.toml")
    from gate_data.own import guess, write_benchmark

    write_benchmark(guess(tmp_path / "birds").values, Path(own))
    settings: dict[str, Any] = {"encoder": "timm:test_resnet@64/random", "show": False}
    model = gate_runner.run(own, output=tmp_path / "model", **settings)
    square = gate_runner.run(own, output=tmp_path / "square", transform="square", **settings)
    results = [json.loads(next((run.folder / "results").iterdir()).read_text()) for run in (model, square)]
    assert [result["status"] for result in results] == ["ok", "ok"]
    assert [result["settings"].get("transform") for result in results] == [None, "square"]
    assert [result["memory"]["encoded"] for result in results] == [8, 8]  # of twelve, four are there twice
    with pytest.raises(UsageError, match="transform"):
        gate_runner.run(own, output=tmp_path / "model", transform="square", **settings)
