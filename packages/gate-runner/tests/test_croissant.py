"""Croissant metadata of what commands make: valid by mlcroissant, rows read through it, RAI fields there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gate_runner.cli import main

mlcroissant = pytest.importorskip("mlcroissant")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # rdflib's, of what mlcroissant calls


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
