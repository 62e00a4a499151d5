"""The towers of the encoders that come along, against open_clip's own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from vision_features.encoders import load_encoder
from vision_features.encoders.micro_clip import micro_clip_config
from vision_features.encoders.towers import DualEncoder

open_clip_model = pytest.importorskip("open_clip.model")


def both(name: str) -> tuple[DualEncoder, Any]:
    config = micro_clip_config(name)["model_cfg"]
    models = []
    for kind in (DualEncoder, open_clip_model.CLIP):
        torch.manual_seed(3)
        models.append(kind(**config))
    return models[0], models[1]


def inputs(model: DualEncoder) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(5, 3, *model.visual.image_size, generator=generator)
    ids = torch.zeros(4, model.context_length, dtype=torch.long)
    for row, text in enumerate(ids):
        text[: row + 2] = torch.randint(1, model.text_eos_id, (row + 2,), generator=generator)
        text[row + 2] = model.text_eos_id
    return images, ids


@pytest.mark.parametrize("name", ["micro-clip", "micro-dense"])
def test_weights_are_drawn_and_named_as_open_clips(name: str) -> None:
    ours, theirs = (model.state_dict() for model in both(name))
    assert list(ours) == list(theirs)
    for key, value in theirs.items():
        assert torch.equal(ours[key], value), key


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("grad", [True, False])
def test_features_and_states_are_open_clips_to_the_bit(training: bool, grad: bool) -> None:
    ours, theirs = (model.train(training) for model in both("micro-clip"))
    images, ids = inputs(ours)
    with torch.set_grad_enabled(grad):
        assert torch.equal(ours.encode_image(images, normalize=True), theirs.encode_image(images, normalize=True))
        assert torch.equal(ours.encode_text(ids, normalize=True), theirs.encode_text(ids, normalize=True))
        for how in ({}, {"normalize_intermediates": True, "indices": 2, "intermediates_only": True}):
            how = {**how, "output_extra_tokens": True}
            same(ours.visual.forward_intermediates(images, **how), theirs.visual.forward_intermediates(images, **how))
        how = {"image_indices": 1, "text_indices": 1, "intermediates_only": True, "normalize_intermediates": True}
        same(
            ours.forward_intermediates(image=images, text=ids, **how),
            theirs.forward_intermediates(image=images, text=ids, **how),
        )


def test_the_class_token_alone_is_that_of_all_tokens_for_less() -> None:
    tower: Any = both("micro-clip")[0].double().eval().visual
    images = torch.randn(3, 3, *tower.image_size, dtype=torch.float64)
    with torch.no_grad(), FlopCounterMode(display=False) as alone:
        state = tower.class_state(images)
    with torch.no_grad(), FlopCounterMode(display=False) as every:
        features = tower(images)
    torch.testing.assert_close(state @ tower.proj, features)
    assert alone.get_total_flops() < 0.85 * every.get_total_flops()


def test_pooled_features_are_encoded_without_the_last_blocks_patches() -> None:
    encoder: Any = load_encoder("micro-clip", device="cpu")
    images = torch.randint(0, 256, (3, 3, 64, 64), dtype=torch.uint8)
    with FlopCounterMode(display=False) as counter:
        before = encoder.encode_backbone(images)
    with torch.no_grad(), FlopCounterMode(display=False) as every:
        features = encoder.module.visual(encoder.prepare(images))
    torch.testing.assert_close(before @ encoder.projection, features, rtol=1e-4, atol=1e-5)
    assert counter.get_total_flops() < 0.85 * every.get_total_flops()


def same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours.keys() == theirs.keys()
    for key, values in theirs.items():
        pairs = zip(ours[key], values, strict=True)
        assert all(torch.equal(a, b) for a, b in pairs), key


@pytest.mark.parametrize("checkpointing", [False, True])
def test_gradients_are_open_clips(checkpointing: bool) -> None:
    ours, theirs = both("micro-clip")
    images, ids = inputs(ours)
    for model in (ours, theirs):
        model.set_grad_checkpointing(checkpointing)
        (model.encode_image(images)[:4] * model.encode_text(ids)).sum().backward()
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=0)


def test_autocast_gives_what_open_clip_gives() -> None:
    ours, theirs = both("micro-clip")
    images, ids = inputs(ours)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        assert torch.equal(ours.encode_image(images), theirs.encode_image(images))
        assert torch.equal(ours.encode_text(ids), theirs.encode_text(ids))


def test_a_field_that_the_towers_do_not_have_is_refused() -> None:
    config = micro_clip_config()["model_cfg"]
    with pytest.raises(TypeError, match="patch_dropout"):
        DualEncoder(8, {**config["vision_cfg"], "patch_dropout": 0.1}, config["text_cfg"])
    with pytest.raises(TypeError, match="pool_type 'last'"):
        DualEncoder(8, config["vision_cfg"], {**config["text_cfg"], "pool_type": "last"})
    with pytest.raises(ValueError, match="expected intermediates_only=True"):
        DualEncoder(**config).forward_intermediates(intermediates_only=False)


def test_the_encoder_that_comes_along_loads_without_open_clip() -> None:
    code = (
        "import sys; from vision_features import load_encoder; load_encoder('micro-clip').encode_text(['a hen']);"
        "print([name for name in ('open_clip', 'timm', 'torchvision', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
