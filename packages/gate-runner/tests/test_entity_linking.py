"""The pack ``oven``: its entities and questions, the task against a plain loop, encoders without a text side."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("oven_retrieval")

from eqben_builder.stand_ins.linking import ENTITIES
from gate_data.data import Data
from gate_runner.benchmarks import BENCHMARKS, PACKS, DataRequest
from gate_runner.errors import DataError, MissingCapabilityError
from gate_runner.executors import run
from gate_runner.runs import RunRequest
from gate_runner.settings import Settings
from gate_runner.tasks import Job, run_task
from gate_runner.tasks.entity_linking import ways
from oven_retrieval.models import Weights
from oven_retrieval.models.clip2clip import GridSearch
from vision_features.encoders.encoder import Encoder

BENCHMARK = BENCHMARKS["oven"]


def stand_in(limit: int) -> Data[Tensor]:
    return BENCHMARK.load("micro", DataRequest(limit=limit))


def unit(row: np.ndarray) -> np.ndarray:
    return row / np.linalg.norm(row)


def image(pixels: Tensor) -> Tensor:
    """Colours of the left and the right half, and a constant: blind to shapes."""
    halves = [pixels[..., :32].mean(dim=(2, 3)), pixels[..., 32:].mean(dim=(2, 3))]
    return torch.cat([*halves, torch.ones(len(pixels), 2)], dim=1)


def text(texts: Sequence[str]) -> Tensor:
    """A vector for each word, added up."""
    rows = []
    for text in texts:
        words = [np.frombuffer(hashlib.sha256(word.encode()).digest()[:8], dtype=np.int8) for word in text.split()]
        rows.append(torch.from_numpy(np.sum(words, axis=0, dtype=np.float32)))
    return torch.stack(rows)


def encoder(**more: object) -> Encoder:
    return Encoder("toy", 64, image, **more)  # type: ignore[arg-type]  # a text side or none


def test_a_question_names_the_shape_of_one_of_two_things() -> None:
    assert PACKS["oven"] == ("oven",)
    data = stand_in(60)
    assert len(data.classes) == len(ENTITIES) == len(set(data.classes)) == 320
    for split in (data.train, data.test):
        shapes = [data.classes[entity].split()[-1] for entity in split.targets.tolist()]
        assert list(split.texts or ()) == [f"a {shape}" for shape in shapes]
    colours = {name: {ENTITIES[i][0] for i in split.targets.tolist()} for name, split in
               (("train", data.train), ("seen", data.test.limited(60)), ("pictures", data.validation))}  # fmt: skip
    assert len(colours["train"]) == 5
    is_seen = torch.isin(data.test.targets, data.train.targets)
    assert is_seen.tolist() == [True, False] * 30
    assert {ENTITIES[i][0] for i in data.test.targets[~is_seen].tolist()}.isdisjoint(colours["train"])
    assert (data.validation.targets % 3 == 0).all()


def test_the_stand_in_is_the_same_twice_and_begins_alike_under_a_limit() -> None:
    few, more = stand_in(20), stand_in(33)
    for first, second in ((few.train, more.train), (few.validation, more.validation), (few.test, more.test)):
        assert torch.equal(first.images, second.images[:20])
        assert torch.equal(first.targets, second.targets[:20])
    assert few.digest() == stand_in(20).digest()


@pytest.mark.parametrize("weights", [None, Weights(0.7, 0.5, 1.0, 0.9)])
def test_scores_equal_a_plain_loop(weights: Weights | None, monkeypatch: pytest.MonkeyPatch) -> None:
    data = stand_in(40)
    if weights is not None:  # what is chosen for so poor an encoder leaves three of the four terms out
        monkeypatch.setattr(
            "gate_runner.tasks.entity_linking.grid_search", lambda *_: GridSearch(weights, 0.0, {weights: 0.0})
        )
    outcome = run_task(Job(encoder(text=text), BENCHMARK, data))
    a, b, c, d = outcome.training["weights"]
    names = [unit(row) for row in text([f"a {name}" for name in data.classes]).double().numpy()]
    black = encoder().encode_image(torch.zeros(1, 3, 64, 64, dtype=torch.uint8))[0].double().numpy()
    pictures = dict.fromkeys(range(320), unit(black))
    shown = encoder().encode_image(data.validation.images).double().numpy()
    pictures |= {entity: unit(row) for entity, row in zip(data.validation.targets.tolist(), shown, strict=True)}
    right, both = [], []
    pairs = zip(encoder().encode_image(data.test.images), data.test.texts or (), data.test.targets, strict=True)
    for features, question, target in pairs:
        x, t = unit(features.double().numpy()), unit(text([question])[0].double().numpy())
        scores = [
            a * (x @ name) + b * (t @ pictures[e]) + c * (x @ pictures[e]) + d * (t @ name)
            for e, name in enumerate(names)
        ]
        right.append(int(np.argmax(scores)) == int(target))
        named = [e for e, name in enumerate(data.classes) if question.split()[-1] in name.split()]
        both.append(max(named, key=scores.__getitem__) == int(target))
    assert outcome.samples.tolist() == [float(is_right) for is_right in right]
    assert outcome.training["both"] == np.mean(both) >= np.mean(right)
    assert outcome.training["vectors"] == np.mean(right)
    assert [row[0].partition(":")[0] for row in ways(outcome.training, "toy").rows] == [
        "CLIP",
        "vectors",
        "linker",
        "both",
    ]
    assert outcome.training["linker"] <= 1 / 8  # the words leave 40 of the entities
    assert weights is None or [a, b, c, d] == list(weights)
    scores = {score.metric: score for score in outcome.scores}
    assert list(scores) == ["accuracy", "seen", "unseen", "harmonic"]
    assert scores["accuracy"].value == pytest.approx(np.mean(right))
    assert scores["seen"].value == pytest.approx(np.mean(right[::2]))
    assert scores["unseen"].value == pytest.approx(np.mean(right[1::2]))
    asked_for = list(zip(data.test.texts or (), data.test.targets.tolist(), strict=True))
    chance = [1 / len({entity for other, entity in asked_for if other == text}) for text, _ in asked_for]
    assert scores["accuracy"].chance == pytest.approx(np.mean(chance))
    assert all(score.low <= score.value <= score.high for score in outcome.scores)


def test_chance_of_the_whole_stand_in_is_one_in_forty() -> None:
    names = [f"{m} {c} {s}" for c, m, s in ENTITIES]
    assert len(names) / len({name.split()[-1] for name in names}) == 40


def test_what_the_task_needs_is_asked_for() -> None:
    with pytest.raises(MissingCapabilityError, match="'toy' has no text side"):
        run_task(Job(encoder(), BENCHMARK, stand_in(8)))
    with pytest.raises(DataError, match=r"seen and of unseen entities, got 1 and 0; raise --limit"):
        run_task(Job(encoder(text=text), BENCHMARK, stand_in(1)))


def test_an_encoder_without_a_text_side_is_a_failed_row(own: str, tmp_path: Path) -> None:
    (failed,) = run(RunRequest([BENCHMARK], f"{own}:pooled_only", tmp_path / "run", Settings(limit=12)))
    assert failed.status == "failed"
    assert "has no text side; this needs one" in failed.reason
