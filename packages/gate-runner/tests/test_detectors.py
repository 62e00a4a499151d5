"""Detectors of transformers, tiny and random: what they read, and how they are scored."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import gate_runner
from gate_runner.encoders import load_encoder
from gate_runner.encoders.detectors import Detector, phrases
from gate_runner.errors import DataError, EncoderError, MissingCapabilityError

from ._tiny_detectors import closed_set, grounding, owl

pytest.importorskip("transformers")
PICTURE = np.random.default_rng(0).integers(0, 255, (48, 64, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def grounding_dino(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return grounding(tmp_path_factory.mktemp("grounding"))


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return closed_set(tmp_path_factory.mktemp("rt"), "rt_detr_v2", classes=5)


def detector(path: Path) -> Detector:
    detector = load_encoder(f"hf-detector:{path}").detector
    assert detector is not None
    return detector


def test_names_become_phrases_as_glip_writes_them() -> None:
    captions = {"puffin": {"suffix": " with orange beaks"}, "pothole": {"prefix": "some ", "name": "holes"}}
    names = ["small_fish", "cup (large)", "puffin", "pothole", "(unlabelled)", "a  b"]
    assert [one.text for one in phrases(names, captions)] == [
        "small fish", "cup", "puffin with orange beaks", "some holes", "", "a b",
    ]  # fmt: skip


def test_class_scores_are_means_over_a_classs_own_tokens(grounding_dino: Path) -> None:
    made = detector(grounding_dino)
    asked = phrases(["square", "small fish", "puffin"], {"puffin": {"suffix": " with orange beaks"}})
    text, spans = made.caption(asked)
    assert text == "square. small fish. puffin with orange beaks."
    assert [text[start:stop] for start, stop in spans] == ["square", "small fish", "puffin"]
    assert made.token_map(asked).gt(0).sum(dim=1).tolist() == [1, 2, 1]
    spotted = made.spot(PICTURE, asked)
    inputs = made.processor(images=PICTURE, text=text, return_tensors="pt")
    with torch.inference_mode():
        chance = made.model(**inputs).logits[0].sigmoid()
    words = made.processor.tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
    own = [words.index("small"), words.index("fish")]
    torch.testing.assert_close(spotted.scores[:, 1], chance[:, own].mean(dim=1))


def test_long_lists_are_asked_in_chunks_and_nameless_classes_never(grounding_dino: Path) -> None:
    made = detector(grounding_dino)
    asked = phrases(["square", "circle", "(unlabelled)", "fish", "dog", "person", "puffin", "a", "b"])
    chunks = made.chunks(asked)
    assert len(chunks) > 1
    assert [place for chunk in chunks for place in chunk] == [0, 1, 3, 4, 5, 6, 7, 8]
    spotted = made.spot(PICTURE, asked)
    assert spotted.scores.shape == (12 * len(chunks), 9)
    assert float(spotted.scores[:, 2].sum()) == 0
    alone = made.spot(PICTURE, [asked[place] for place in chunks[-1]])
    torch.testing.assert_close(spotted.scores[-12:, chunks[-1]], alone.scores)
    with pytest.raises(DataError, match="at most 16 fit"):
        made.spot(PICTURE, phrases(["fish " * 20]))


def test_owl_boxes_lie_in_the_picture_not_in_its_square(tmp_path: Path) -> None:
    made = Detector(*owl(tmp_path))
    spotted = made.spot(PICTURE, phrases(["square", "small fish"]))
    assert spotted.scores.shape == (16, 2)
    inputs = made.processor(images=PICTURE, text=[["square", "small fish"]])
    with torch.inference_mode():
        model = made.model(**inputs)
    low = (model.pred_boxes[0, :, 1] + model.pred_boxes[0, :, 3] / 2) * 64  # pixels of the square, 64 on each side
    torch.testing.assert_close(spotted.boxes[:, 3] * 48, low)


def test_what_is_no_detector_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="no directory"):
        load_encoder(f"hf-detector:{tmp_path / 'gone'}")
    with pytest.raises(EncoderError, match="'bert' is no detector that is known here"):
        Detector(SimpleNamespace(config=SimpleNamespace(model_type="bert")), None)


def test_zero_shot_in_the_runner_names_its_prompts(grounding_dino: Path, tmp_path: Path) -> None:
    done = gate_runner.run(
        ["micro/odinw-lot", "digits"], encoder=f"hf-detector:{grounding_dino}", output=tmp_path / "run", limit=4,
        show=False, device="cpu", prompts="names",
    )  # fmt: skip
    found, refused = done.results
    assert found.status == "ok", found.reason
    assert found.training["prompts"] == {"kind": "names", "read": ["square", "circle"]}
    assert (found.training["shots"], found.training["steps"]) == ("0", 0)
    assert "is a detector: it gives boxes, no features" in refused.reason


def test_a_detector_is_scored_as_it_is(closed: Path, tmp_path: Path) -> None:
    plain: dict[str, Any] = {"encoder": f"hf-detector:{closed}", "limit": 4, "show": False, "device": "cpu"}
    refused = gate_runner.run("micro/odinw-lot", output=tmp_path / "zero", **plain).results[0]
    assert "knows 5 classes of its own, the data set has 2: train it by transformers" in refused.reason
    for number, options in enumerate(({"tune": "full"}, {"shots": "3"})):
        refused = gate_runner.run("micro/odinw-lot", output=tmp_path / str(number), **plain, **options).results[0]
        assert refused.reason.startswith("a detector is scored as it is: train it by transformers' Trainer")


def test_features_of_a_detector_are_refused(grounding_dino: Path) -> None:
    encoder = load_encoder(f"hf-detector:{grounding_dino}")
    assert encoder.provides() == ["detector"]
    with pytest.raises(MissingCapabilityError, match="it gives boxes, no features"):
        encoder.encode_image(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
