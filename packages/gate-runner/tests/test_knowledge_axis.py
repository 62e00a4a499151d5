"""Knowledge as an axis of a sweep: ELEVATER's sources apart, with fewer texts, and together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import gate_runner
from gate_runner.runs.stored import read_run
from gate_runner.settings.axes import Axes, Variant, knowledge_in
from gate_runner.tasks.elevater.shipped_texts import TEXTS
from gate_runner.tasks.elevater.texts import ClassTexts, class_texts
from gate_runner.tasks.features import Embedder
from knowledge_prompts import load_class_prompts
from knowledge_prompts.sources.elevater_files import ExternalRecord, write_external, write_gpt3

CLASSES = load_class_prompts("cifar-10").classes
VALUES = {
    "wiktionary": 1, "wordnet-path": 1, "wordnet-definition": 1, "wordnet": 2, "gpt3": 5, "gpt3-1": 1, "gpt3-3": 3,
    "wiktionary+gpt3": 6, "wiktionary+gpt3-2": 3, "wordnet-path+wordnet-definition+gpt3-1": 3,
}  # fmt: skip
"""Kinds of knowledge, and how many items of it each class has in the files that are written here."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files in ELEVATER's form, in which every item can be told."""
    path = tmp_path_factory.mktemp("knowledge")
    for part in ("external", "gpt3"):
        (path / part).mkdir()
    records = [
        ExternalRecord(name, f"wiki {name}", ("path", name.replace(" ", "_")), f"defined {name}") for name in CLASSES
    ]
    write_external(path / "external" / "cifar-10_knowledge.tsv", records)
    texts = {name: [f"text {number} {name}" for number in range(5)] for name in CLASSES}
    write_gpt3(path / "gpt3" / "GPT3_cifar-10.tsv", texts)
    return path


def embedded(texts: Sequence[str]) -> Tensor:
    """Sums of letters: a text is told from another."""
    rows = [
        [sum(ord(letter) * (place + 1) % 97 for place, letter in enumerate(text)), len(text), 1.0] for text in texts
    ]
    return torch.tensor(rows)


def of(knowledge: str, folder: Path) -> ClassTexts:
    return class_texts("cifar-10", CLASSES, knowledge_in(knowledge), Embedder(embedded), folder)


@pytest.mark.parametrize(("knowledge", "items"), VALUES.items())
def test_each_value_gives_its_items_to_every_class(knowledge: str, items: int, folder: Path) -> None:
    texts = of(knowledge, folder)
    templates = len(load_class_prompts("cifar-10").templates)
    assert texts.known == len(CLASSES)
    for name, prompts in zip(CLASSES, texts.prompts, strict=True):
        own = prompts.split(" | ")
        assert len(own) == templates * items
        for part in knowledge.split("+"):
            word = {"wiktionary": "wiki", "wordnet-path": "path", "wordnet-definition": "defined"}.get(part, "text 0")
            word = "path" if part == "wordnet" else word
            assert any(word in text and name.split()[-1] in text for text in own), (part, name)
        if "gpt3" in knowledge:
            count = {"gpt3": 5, "wiktionary+gpt3": 5}.get(knowledge) or int(knowledge[-1])
            numbers = {text.partition("text ")[2][:1] for text in own if "text " in text}
            assert numbers == {str(number) for number in range(count)}


def test_wordnet_is_both_of_its_parts(folder: Path) -> None:
    whole, parts = of("wordnet", folder), of("wordnet-path+wordnet-definition", folder)
    assert whole.weights is not None
    assert parts.weights is not None
    assert torch.allclose(whole.weights, parts.weights, atol=1e-6)
    assert not torch.allclose(whole.weights, of("wordnet-path", folder).weights)  # type: ignore[arg-type]  # there


@pytest.mark.parametrize(
    ("text", "value"),
    [("gpt3:5", "gpt3-5"), ("gpt3-5", "gpt3-5"), ("gpt3:2+wiktionary", "wiktionary+gpt3-2"), ("auto", "auto")],
)
def test_values_have_one_spelling_which_names_of_results_can_have(text: str, value: str) -> None:
    assert knowledge_in(text) == value
    variant = Variant(5, "frozen", "language", "2p", value)
    assert Variant.parse(variant.name) == variant
    assert not set(variant.name) & set(':/\\"<>|*?')


def test_sources_stand_in_order_and_controls_behind_them() -> None:
    axes = Axes(knowledge=("auto", "wiktionary+gpt3:5", "gpt3:1", "none", "wordnet-path", "wiktionary"))
    assert axes.knowledge_for("frozen") == (
        "none", "wiktionary", "wordnet-path", "gpt3-1", "wiktionary+gpt3-5", "random-words", "other-classes", "auto",
    )  # fmt: skip


def test_a_sweep_chooses_among_the_papers_rows(tmp_path: Path) -> None:
    name = next(name for name, texts in TEXTS.items() if "gpt3" in texts.knowledge)
    results = gate_runner.run(
        name, encoder="micro-clip/random", output=tmp_path, show=False, limit=48, shots="5", init="language",
        knowledge="auto,gpt3:1", controls=False, device="cpu",
    )  # fmt: skip
    by_knowledge = {result.benchmark.rpartition(".")[2]: result for result in results}
    assert by_knowledge.keys() == {"none", "gpt3-1", "auto"}
    assert all(result.status == "ok" for result in results)
    assert by_knowledge["auto"].training["chosen"]["knowledge"] in ("none", "gpt3-1")


def test_classes_without_knowledge_are_named_once_by_a_line_results_and_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name = next(name for name, texts in TEXTS.items() if "gpt3" in texts.knowledge)
    stored = TEXTS[name].knowledge["gpt3"]
    silent = list(stored)[:4]
    known = {label: texts for label, texts in stored.items() if label not in silent}
    monkeypatch.setitem(TEXTS, name, replace(TEXTS[name], knowledge={"gpt3": known}))
    gate_runner.run(
        name, encoder="micro-clip/random", output=tmp_path, show=False, limit=20, shots="0,5", init="language",
        knowledge="none,gpt3:1,wiktionary", controls=False, device="cpu",
    )  # fmt: skip
    line = (
        f"{name.partition('@')[0]}: gpt3-1 has nothing on 4 of {len(stored)} classes, read by name alone: "
        f"{', '.join(silent[:3])} and 1 more"
    )
    assert caplog.text.count(line) == 1
    results = {result.benchmark.rpartition(".")[2]: result.training for result in read_run(tmp_path).results}
    assert results["gpt3-1"]["unknown"] == silent
    assert results["wiktionary"]["known"] == 0
    assert results["wiktionary"]["unknown"] == list(stored)
    assert "unknown" not in results["none"]
    assert line in gate_runner.report(tmp_path, pictures=0)


@pytest.mark.parametrize("data_set", ["cifar-10", "dtd", "oxford-iiit-pets"])
def test_elevaters_own_files_give_every_row_of_table_17(data_set: str, shared_data: Path) -> None:
    folder = shared_data / "elevater_knowledge"
    if not folder.is_dir():
        pytest.skip("ELEVATER's knowledge files are not here")
    classes = load_class_prompts(data_set).classes
    rows = {}
    for knowledge in ("wiktionary", "wordnet-path", "wordnet-definition", "gpt3:1", "gpt3:5", "wiktionary+gpt3:1",
                      "wiktionary+gpt3:5"):  # fmt: skip
        texts = class_texts(data_set, classes, knowledge_in(knowledge), Embedder(embedded), folder)
        assert texts.weights is not None, texts.reason
        assert 0 < texts.known <= len(classes)
        rows[knowledge] = texts.weights.numpy()
    names = list(rows)
    assert not any(np.allclose(rows[a], rows[b]) for at, a in enumerate(names) for b in names[at + 1 :])
