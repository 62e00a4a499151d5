"""From the choice to predictions: each image goes through the encoder once."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from gate_runner import adapt
from gate_runner.choosing.choice import choose
from gate_runner.cli import main
from gate_runner.commands.run import own_folder
from gate_runner.errors import UsageError
from gate_runner.settings import Settings
from vision_features import load_head
from vision_features.encoders import load_encoder
from vision_features.encoders.encoder import Encoder
from vision_features.heads import embed

COUNT = {"train": 10, "val": 4, "test": 6}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three classes in noise, no two images alike."""
    draw = np.random.default_rng(0)
    for name in ("blue", "green", "red"):
        for split, count in COUNT.items():
            (tmp_path / "photos" / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = draw.integers(0, 255, (50, 70, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(tmp_path / "photos" / split / name / f"{number}.png")
    return tmp_path / "photos"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, bytes]]:
    """How often an encoder was given each image, by its pixels; what it is probed and timed with is left out."""
    counts: Counter[tuple[str, bytes]] = Counter()
    prepare = Encoder.prepare

    def counting(self: Encoder, images: torch.Tensor) -> torch.Tensor:
        pixels = prepare(self, images)
        counts.update((self.spec, hashlib.sha256(image.numpy().tobytes()).digest()) for image in pixels)
        return pixels

    monkeypatch.setattr(Encoder, "prepare", counting)
    monkeypatch.setattr("vision_features.encoders.probe.probe", probed(counts))
    return counts


def probed(counts: Counter[tuple[str, bytes]]) -> Callable[[Encoder], dict[str, Any]]:
    from vision_features.encoders.probe import probe

    def quietly(encoder: Encoder) -> dict[str, Any]:
        before = counts.copy()
        outputs = probe(encoder)
        counts.clear()
        counts.update(before)
        return outputs

    return quietly


@pytest.mark.parametrize("spec", ["timm:test_vit/random", "micro-dense"])
def test_an_image_is_encoded_once_from_the_choice_to_predictions(
    photos: Path, tmp_path: Path, seen: Counter[tuple[str, bytes]], cold_cache: Callable[[], Path], spec: str
) -> None:
    settings = Settings().changed(readout="auto", device="cpu", isolate="none")
    choose(own_folder(photos), [spec, f"{spec.partition('/')[0]}/random:5"], tmp_path / "chosen", settings)
    how: dict[str, Any] = {"encoder": spec, "device": "cpu"}
    adapt(photos, output=tmp_path / "a", save=tmp_path / "plain", **how)
    adapt(photos, output=tmp_path / "b", save=tmp_path / "concat", readout="concat", **how)
    adapt(photos, output=tmp_path / "c", seeds=(1,), **how)
    embed(photos, tmp_path / "features.npz", **how)
    files = sorted(photos.rglob("*.png"))
    heads = [load_head(tmp_path / name, device="cpu") for name in ("plain", "concat")]
    through_cache = [[made.classes for made in head.predict(files, keep=True)] for head in heads]
    before = seen.copy()
    assert through_cache == [[made.classes for made in head.predict(files)] for head in heads]
    times = [before[key] for key, count in seen.items() if count > before[key]]  # of these images, and of nothing else
    assert times == [1] * len(files)
    with np.load(tmp_path / "features.npz") as arrays:
        assert len(arrays["features"]) == len(files)


def test_what_was_predicted_is_not_encoded_again_for_labels(
    photos: Path, tmp_path: Path, seen: Counter[tuple[str, bytes]], cold_cache: Callable[[], Path]
) -> None:
    adapt(photos / "train", output=tmp_path / "a", save=tmp_path / "head", encoder="micro-dense", device="cpu")
    new, labelled = photos / "test", tmp_path / "labelled.csv"
    (new / "red" / "broken.png").write_bytes(b"no image")
    files = sorted(new.rglob("*.png"))
    labelled.write_text("file,label\n" + "".join(f"{file},{file.parent.name}\n" for file in files))
    seen.clear()
    predict = ["adapt", "predict", str(tmp_path / "head"), str(new), "--device", "cpu"]
    for further, name in (([], "first.csv"), (["--labels", str(labelled)], "second.csv")):
        with pytest.raises(SystemExit, match=r"^1$"):  # one file cannot be read
            main([*predict, *further, "--output", str(tmp_path / name)])
    assert sorted(seen.values()) == [1] * (len(files) - 1)
    first, second = ((tmp_path / name).read_text() for name in ("first.csv", "second.csv"))
    assert first == second
    (row,) = [line for line in first.splitlines() if "broken" in line]
    assert "cannot be read as an image" in row


def test_plain_features_are_the_columns_of_read_outs(
    photos: Path, tmp_path: Path, cold_cache: Callable[[], Path]
) -> None:
    spec = "timm:test_vit/random"
    embed(photos, tmp_path / "alone.npz", encoder=spec, device="cpu")
    cold_cache()
    adapt(photos, output=tmp_path / "a", encoder=spec, readout="concat", device="cpu")
    embed(photos, tmp_path / "cut.npz", encoder=spec, device="cpu")
    with np.load(tmp_path / "alone.npz") as alone, np.load(tmp_path / "cut.npz") as cut:
        np.testing.assert_allclose(alone["features"], cut["features"], rtol=1e-4, atol=1e-5)


def test_an_output_that_differs_from_that_of_the_blocks_is_encoded_for_itself() -> None:
    encoder = load_encoder("micro-dense")
    assert encoder.gives_with_blocks("pooled") == slice(0, encoder.readouts()["last"])
    encoder.outputs["blocks"] = [1.1 * value for value in encoder.outputs["blocks"]]
    assert encoder.gives_with_blocks("pooled") is None
    assert encoder.gives_with_blocks("backbone") is not None


def test_embed_takes_at_most_so_many_of_each_split_spread_over_classes(
    photos: Path, tmp_path: Path, seen: Counter[tuple[str, bytes]], cold_cache: Callable[[], Path]
) -> None:
    how: dict[str, Any] = {"encoder": "micro-dense", "device": "cpu", "limit": 6}
    assert embed(photos, tmp_path / "few.npz", **how) == 18
    assert set(seen.values()) == {1}
    with np.load(tmp_path / "few.npz") as arrays:
        given = Counter(zip(arrays["splits"].tolist(), arrays["labels"].tolist(), strict=True))
    assert given == {(split, name): 2 for split in ("train", "validation", "test") for name in ("blue", "green", "red")}
    adapt(photos, output=tmp_path / "run", **how)
    assert set(seen.values()) == {1}  # a run with the same limit takes the same images
    assert embed(photos / "test" / "red", tmp_path / "alone.npz", **how | {"limit": 4}) == 4
    with pytest.raises(UsageError, match="--limit must be at least 1, not 0"):
        embed(photos, tmp_path / "none.npz", **how | {"limit": 0})
