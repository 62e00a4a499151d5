"""Every family of detectors that transformers has: scores as its own processor reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from gate_runner.detection.tuning import batch_loss, choose, low, unchanged, with_classes
from vision_features.encoders import detectors, load_encoder
from vision_features.encoders.detectors import Detector, phrases

from ._tiny_detectors import CLOSED, closed_set

pytest.importorskip("transformers")
PICTURE = np.random.default_rng(0).integers(0, 255, (48, 64, 3)).astype(np.uint8)
TRUTHS = [torch.tensor([[1.0, 0.5, 0.5, 0.4, 0.4]]), torch.zeros(0, 5), torch.tensor([[0.0, 0.3, 0.6, 0.2, 0.3]])]


def loaded(path: Path) -> Detector:
    detector = load_encoder(f"hf-detector:{path}").detector
    assert detector is not None
    return detector


def test_every_closed_set_has_a_tiny_one() -> None:
    assert set(CLOSED) == set(detectors.CLOSED)


def _visual(name: str) -> bool:
    return "backbone" in name or "conv_encoder" in name


@pytest.mark.parametrize("family", sorted(CLOSED))
def test_a_closed_set_is_read_as_its_own_processor_does(family: str, tmp_path: Path) -> None:
    detector = loaded(closed_set(tmp_path, family))
    prompts = phrases(["square", "circle"])
    spotted = detector.spot(PICTURE, prompts)
    with torch.inference_mode():
        model = detector.model(**detector.processor(images=PICTURE, return_tensors="pt"))
    (theirs,) = detector.processor.post_process_object_detection(model, threshold=0.0, target_sizes=[(48, 64)])
    best = int(theirs["scores"].argmax())
    query, label = divmod(int(spotted.scores.argmax()), 2)
    assert label == int(theirs["labels"][best])
    torch.testing.assert_close(spotted.scores[query, label], theirs["scores"][best])
    torch.testing.assert_close(spotted.boxes[query] * torch.tensor([64.0, 48, 64, 48]), theirs["boxes"][best])

    before = {name: value.clone() for name, value in detector.model.state_dict().items()}
    for tune in ("full", "linear"):
        with unchanged(detector):
            learns = choose(detector, tune)
            frozen = [name for name, weight in detector.model.named_parameters() if not weight.requires_grad]
            if tune == "full":
                assert all(map(low, frozen))
                assert family == "yolos" or (frozen and any(map(_visual, learns)))
            else:
                assert not any(map(_visual, learns))
            torch.manual_seed(0)
            loss = batch_loss(detector, [PICTURE] * 3, TRUTHS, prompts)
            torch.autograd.backward(loss)
            assert any(weight.grad is not None and weight.grad.any() for weight in detector.model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in detector.model.state_dict().items())
    with unchanged(detector):
        with_classes(detector, 4)
        assert detector.spot(PICTURE, phrases(list("abcd"))).scores.shape == (12, 4)
    assert detector.spot(PICTURE, prompts).scores.shape == (12, 2)


def test_only_the_stem_and_the_first_stage_stay_as_they_are() -> None:
    inside = {
        "model.backbone.conv_encoder.model.embeddings.patch_embeddings.projection.weight": True,
        "model.backbone.conv_encoder.model.encoder.layers.0.blocks.1.layernorm_before.weight": True,
        "model.backbone.conv_encoder.model.encoder.layers.1.blocks.0.layernorm_before.weight": False,
        "model.backbone.model.encoder.stages.2.blocks.0.layers.0.conv.weight": False,
        "model.backbone.model.encoder.stages.0.blocks.0.layers.1.conv.weight": True,
        "model.backbone.conv_encoder.model.layer1.0.conv1.weight": True,
        "model.backbone.conv_encoder.model.layer2.0.conv1.weight": False,
        "model.backbone.conv_encoder.model.bn1.weight": True,
        "model.conv_encoder.model.embedder.stem2a.convolution.weight": True,
        "model.conv_encoder.model.encoder.stages.1.downsample.convolution.weight": False,
        "model.backbone.backbone.encoder.layer.11.mlp.fc1.weight": False,
        "model.backbone.projector.scale_layers.0.layers.0.conv.weight": False,
        "model.text_backbone.encoder.layer.0.output.dense.weight": False,
        "model.decoder.layers.0.fc1.weight": False,
    }
    assert {name: low(name) for name in inside} == inside
