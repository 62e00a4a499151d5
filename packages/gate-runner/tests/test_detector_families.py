"""Every family of detectors that transformers has: scores as its own processor reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from gate_runner.encoders import detectors, load_encoder
from gate_runner.encoders.detectors import Detector, phrases

from ._tiny_detectors import CLOSED, closed_set

pytest.importorskip("transformers")
PICTURE = np.random.default_rng(0).integers(0, 255, (48, 64, 3)).astype(np.uint8)


def loaded(path: Path) -> Detector:
    detector = load_encoder(f"hf-detector:{path}").detector
    assert detector is not None
    return detector


def test_every_closed_set_has_a_tiny_one() -> None:
    assert set(CLOSED) == set(detectors.CLOSED)


@pytest.mark.parametrize("family", sorted(CLOSED))
def test_a_closed_set_is_read_as_its_own_processor_does(family: str, tmp_path: Path) -> None:
    made = loaded(closed_set(tmp_path, family))
    asked = phrases(["square", "circle"])
    spotted = made.spot(PICTURE, asked)
    with torch.inference_mode():
        model = made.model(**made.processor(images=PICTURE, return_tensors="pt"))
    (theirs,) = made.processor.post_process_object_detection(model, threshold=0.0, target_sizes=[(48, 64)])
    best = int(theirs["scores"].argmax())
    query, label = divmod(int(spotted.scores.argmax()), 2)
    assert label == int(theirs["labels"][best])
    torch.testing.assert_close(spotted.scores[query, label], theirs["scores"][best])
    torch.testing.assert_close(spotted.boxes[query] * torch.tensor([64.0, 48, 64, 48]), theirs["boxes"][best])
