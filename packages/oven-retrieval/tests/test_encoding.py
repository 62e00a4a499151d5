"""Entities encoded into a project folder and searched."""

from __future__ import annotations

import numpy as np
import pytest

from oven_retrieval import Entity, FolderError, build_kb, build_name_index
from oven_retrieval.encoding import (
    add_vectors,
    as_array,
    entity_text,
    open_vectors,
    search_features,
)
from oven_retrieval.ranking import describe


class Letters:
    """Counts of letters as features."""

    def __init__(self):
        self.asked = []

    def encode_text(self, texts):
        self.asked.append(len(texts))
        return np.array([[1 + text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts])


@pytest.fixture
def project(tmp_path):
    kb = build_kb(
        [Entity("1", "zebra", description="an animal"), Entity("2", "cow"), Entity("3", "buzz")], tmp_path / "kb"
    )
    return build_name_index(kb, tmp_path / "names")


def test_search_finds_the_nearest_name(project, tmp_path):
    encoder, lines = Letters(), []
    built = add_vectors(project, tmp_path, encoder, encoder_name="letters", say=lines.append)
    assert lines[0] == "3 vectors are searched exactly in little time"
    index = open_vectors(tmp_path, project.kb, encoder_name="letters")
    for searched in (built, index):
        neighbours = search_features(searched, encoder.encode_text(["ZEBRA", "owc"]), k=5)
        records = describe(project.kb.label, ["ZEBRA", "owc"], neighbours)
        assert [record["entities"][0]["name"] for record in records] == ["zebra", "cow"]
        assert [len(record["entities"]) for record in records] == [3, 3]
        assert records[0]["entities"][0]["score"] == pytest.approx(1, abs=1e-3)
    with pytest.raises(FolderError, match="encoder is 'letters; name', expected 'other; name'"):
        open_vectors(tmp_path, project.kb, encoder_name="other")
    with pytest.raises(ValueError, match=r"features: expected shape \[n, 26\], got \[1, 3\]"):
        search_features(index, np.ones((1, 3)))


def test_texts_and_tensors(project):
    assert entity_text(project.kb, 0, "description") == "zebra: an animal"
    assert entity_text(project.kb, 1, "description") == entity_text(project.kb, 1) == "cow"
    with pytest.raises(ValueError, match="template: expected one of"):
        entity_text(project.kb, 0, "title")
    torch = pytest.importorskip("torch")
    array = as_array(torch.ones(2, 3, requires_grad=True, dtype=torch.bfloat16))
    assert array.dtype == np.float32


def test_an_encoder_that_returns_nothing_useful_is_refused(project, tmp_path):
    class Zeros:
        def encode_text(self, texts):
            return np.zeros((len(texts), 4))

    with pytest.raises(ValueError, match="features of entities 0 to 2: row 0 is all zeros"):
        add_vectors(project, tmp_path, Zeros(), encoder_name="zeros")
