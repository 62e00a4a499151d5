"""Every family of detectors that transformers has: scores as its own processor reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from gate_runner.encoders import detectors, load_encoder
from gate_runner.encoders.detectors import Detector
from gate_runner.encoders.phrases import phrases
from gate_runner.errors import DataError

from ._tiny_detectors import CLOSED, closed_set, omdet

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


def test_omdet_turbo_reads_names_in_chunks_and_scores_as_its_processor(tmp_path: Path) -> None:
    made = loaded(omdet(tmp_path))
    asked = phrases(["square", "small_fish"])
    spotted = made.spot(PICTURE, asked)
    inputs = made.processor(
        images=PICTURE, text=[["square", "small fish"]], task=["Detect square, small fish."], return_tensors="pt",
        text_kwargs={"padding": "max_length", "max_length": 16},
    )  # fmt: skip
    with torch.inference_mode():
        model = made.model(**inputs)
    (theirs,) = made.processor.post_process_grounded_object_detection(
        model, threshold=0.0, nms_threshold=1.0, target_sizes=[(48, 64)], max_num_det=24
    )
    assert spotted.scores.shape == (12, 2)
    torch.testing.assert_close(spotted.scores.flatten().sort().values, theirs["scores"].sort().values)
    query, label = divmod(int(spotted.scores.argmax()), 2)
    best = int(theirs["scores"].argmax())
    assert label == int(theirs["labels"][best])
    edges = (spotted.boxes[query] * torch.tensor([64.0, 48, 64, 48])).clamp(min=0)
    torch.testing.assert_close(edges, theirs["boxes"][best])

    many = phrases(["square", "circle", "(unlabelled)", "fish", "dog", "person", "puffin", "red", "black"])
    chunks = made.chunks(many)
    assert [place for chunk in chunks for place in chunk] == [0, 1, 3, 4, 5, 6, 7, 8]
    assert len(chunks) == 2
    first = [many[place].name for place in chunks[0]]
    tokens = [len(made.processor.tokenizer(f"Detect {', '.join(names)}.")["input_ids"])
              for names in (first, [*first, many[chunks[1][0]].name])]  # fmt: skip
    assert tokens[0] <= 16 < tokens[1]
    spot = made.spot(PICTURE, many)
    assert spot.scores.shape == (24, 9)
    assert float(spot.scores[:, 2].sum()) == 0
    alone = made.spot(PICTURE, [many[place] for place in chunks[1]])
    torch.testing.assert_close(spot.scores[12:, chunks[1]], alone.scores)
    with pytest.raises(DataError, match=r"class 'fish fish .* has \d+ tokens, at most 16 fit"):
        made.spot(PICTURE, phrases(["fish " * 20]))
