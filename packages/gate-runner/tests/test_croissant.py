"""Croissant metadata of what commands make: valid by mlcroissant, rows read through it, RAI fields there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gate_runner.cli import main
from oven_retrieval.construction.croissant import write_croissant

mlcroissant = pytest.importorskip("mlcroissant")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # rdflib's, of what mlcroissant calls


REPORT = {"splits": {"entity_val_seen": {"examples": 1}}, "knowledge_base": "k", "rules": {}, "ambiguous_labels": 0}


def validated(path: Path) -> Any:
    """The data set as mlcroissant has it; an error in it is raised."""
    dataset = mlcroissant.Dataset(jsonld=str(path))
    assert not dataset.metadata.issues.errors
    for said in (dataset.metadata.data_biases, dataset.metadata.data_collection):
        assert said
    assert dataset.metadata.personal_sensitive_information
    return dataset


def rows(dataset: Any, name: str) -> list[dict[str, str]]:
    records = dataset.records(name)
    return [{key.partition("/")[2]: value.decode() for key, value in row.items()} for row in records]


def call(*words: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert ended.value.code == 0


def test_pairs_are_described_and_read_through_it(tmp_path: Path) -> None:
    call("eqben", "build", "micro", tmp_path / "pairs", "--pairs", 2, "--workers", 1, "--size", 64)
    path = tmp_path / "pairs" / "croissant.json"
    before = path.read_bytes()
    dataset = validated(path)
    read = rows(dataset, "pairs")
    wanted = [json.loads(line) for line in (tmp_path / "pairs" / "pairs.jsonl").read_text().splitlines()]
    assert [row["caption1"] for row in read] == [row["caption1"] for row in wanted]
    assert all((tmp_path / "pairs" / row["image0"]).is_file() for row in read)
    assert dataset.metadata.license == ["CC0-1.0"]
    call("eqben", "verify", tmp_path / "pairs")  # it is no part of what the hash holds
    call("eqben", "build", "micro", tmp_path / "pairs", "--pairs", 2, "--workers", 1, "--size", 64)
    assert path.read_bytes() == before


def test_questions_are_described_and_read_through_it(tmp_path: Path) -> None:
    entities = [("Q1", "mandarin duck"), ("Q2", "wood"), ("Q3", "owl")]
    kb = tmp_path / "kb.jsonl"
    kb.write_text(
        "".join(json.dumps({"wikidata_id": label, "wikipedia_title": name}) + "\n" for label, name in entities)
    )
    call("oven", "build", kb, "--output", tmp_path / "kb")
    labels = [{"image_id": f"{name}{i}", "label": name} for _, name in entities for i in range(12)]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(label) + "\n" for label in labels))
    words = ["--test", 0.3, "--unseen", 0.4, "--licence", "CC-BY-4.0"]
    call("oven", "make", tmp_path / "labels.jsonl", "--kb", tmp_path / "kb", "--output", tmp_path / "made", *words)
    dataset = validated(tmp_path / "made" / "croissant.json")
    assert dataset.metadata.license == ["CC-BY-4.0"]
    parts = [path.stem for path in (tmp_path / "made").glob("entity_*.jsonl")]
    assert {"entity_train", "entity_test"} <= set(parts)
    for part in parts:
        wanted = [json.loads(line) for line in (tmp_path / "made" / f"{part}.jsonl").read_text().splitlines()]
        assert rows(dataset, part) == wanted


def test_a_changed_table_no_longer_fits(tmp_path: Path) -> None:
    (tmp_path / "entity_val.jsonl").write_text('{"data_id": "x"}\n')
    first = json.loads(write_croissant(tmp_path, REPORT, "CC0-1.0").read_text())["distribution"][0]["sha256"]
    (tmp_path / "entity_val.jsonl").write_text('{"data_id": "y"}\n')
    second = json.loads(write_croissant(tmp_path, REPORT, "CC0-1.0").read_text())["distribution"][0]["sha256"]
    assert second != first


def test_what_is_no_croissant_is_refused(tmp_path: Path) -> None:
    (tmp_path / "entity_val.jsonl").write_text('{"data_id": "x"}\n')
    path = write_croissant(tmp_path, REPORT, "CC0-1.0")
    record = json.loads(path.read_text())
    record["recordSet"][0]["field"][0]["source"]["fileObject"]["@id"] = "b.jsonl"
    path.write_text(json.dumps(record))
    with pytest.raises(mlcroissant.ValidationError):
        validated(path)
