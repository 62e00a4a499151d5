"""Zero-shot scores by single templates, and their interval beside that over images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import gate_runner
from gate_data.request import DataRequest
from gate_runner.benchmarks import find_benchmark
from gate_runner.settings import Settings
from gate_runner.tasks import Job, run_task
from gate_runner.tasks.features import Embedder
from gate_runner.tasks.zero_shot import _over_templates, details
from knowledge_prompts.class_words import ClassWords
from vision_features.encoders import load_encoder

CLASSES = ("wren", "owl", "kite")
TEMPLATES = ("a {}", "the {}", "a photo of a {}", "{} in a tree")


def encode(texts: list[str]) -> np.ndarray:
    """A direction for each text, near to that of its class."""
    rows = []
    for text in texts:
        seed = sum(map(ord, text))
        one_hot = np.eye(3)[next(number for number, name in enumerate(CLASSES) if name in text)]
        rows.append(one_hot + 0.8 * np.random.default_rng(seed).normal(size=3))
    return np.array(rows, dtype=np.float32)


def test_each_template_alone_is_scored_as_a_classifier_of_its_own() -> None:
    targets = torch.arange(60) % 3
    features = torch.nn.functional.normalize(
        torch.eye(3)[targets] + 0.7 * torch.randn(60, 3, generator=torch.Generator().manual_seed(0)), dim=-1
    )
    job: Any = SimpleNamespace(
        benchmark=SimpleNamespace(metrics=("acc@1",)),
        data=SimpleNamespace(classes=CLASSES, test=SimpleNamespace(targets=targets)),
    )
    spread = _over_templates(job, ClassWords(TEMPLATES), encode, features)
    expected = []
    for template in TEMPLATES:
        weights = encode([template.replace("{}", name) for name in CLASSES])
        weights = weights / np.linalg.norm(weights, axis=1, keepdims=True)
        expected.append(float(((features.numpy() @ weights.T).argmax(1) == targets.numpy()).mean()))
    assert list(spread["each"]) == list(TEMPLATES)
    assert list(spread["each"].values()) == pytest.approx(expected, abs=1e-6)
    interval = stats.t.interval(0.95, 3, np.mean(expected), stats.sem(expected))
    assert (spread["low"], spread["high"]) == pytest.approx(interval, abs=1e-6)
    assert _over_templates(job, ClassWords(TEMPLATES[:2]), encode, features) == {}


def test_a_text_is_encoded_once() -> None:
    calls: list[str] = []

    def counted(texts: Sequence[str]) -> torch.Tensor:
        calls.extend(texts)
        return torch.from_numpy(encode(list(texts)))

    embed = Embedder(counted)
    first = embed(["a wren", "a owl", "a wren"])
    assert embed(["a owl"])[0].tolist() == first[1].tolist()
    assert calls == ["a wren", "a owl"]


def test_a_run_says_both_intervals(tmp_path: Any) -> None:
    result = gate_runner.run("zero-shot", encoder="micro-clip", output=tmp_path / "run", limit=60, show=False).results[
        0
    ]
    spread = result.training["over_templates"]
    assert len(spread["each"]) == 3
    assert spread["over_images"] == [result.scores[0].low, result.scores[0].high]
    shown = details(result.training, "micro-clip").notes[0]
    assert shown.startswith("acc@1 by all 3 templates together:")
    assert "over other templates" in shown


def test_chance_is_the_share_of_the_most_frequent_class() -> None:
    """It was that of the first class, so that who named the commonest for every image stood far above it."""
    benchmark = find_benchmark("zero-shot")
    data = benchmark.load("micro", DataRequest(limit=10))
    data = replace(data, test=replace(data.test, targets=torch.tensor([0, 0, 3, 3, 3, 3, 3, 3, 3, 5])))
    job = Job(encoder=load_encoder("micro-clip"), benchmark=benchmark, data=data, settings=Settings())
    assert run_task(job).scores[0].chance == pytest.approx(0.7)
