"""Vectors and indexes follow a knowledge base whose entities come and go."""

from __future__ import annotations

import json

import numpy as np
import pytest

from oven_retrieval import Entity, FolderError, KnowledgeBase, add_entities, build_kb, compact, remove_entities
from oven_retrieval.encoding import encode_names, open_vectors, search_features, update_vectors
from oven_retrieval.vectors import IndexPlan, VectorIndex, VectorStore, build_index, exact_search, open_index

DIM = 12


class Seeded:
    """A text's features are random numbers of its own."""

    def __init__(self):
        self.asked = []

    def encode_text(self, texts):
        self.asked += texts
        return np.stack([np.random.default_rng(list(text.encode())).normal(size=DIM) for text in texts])


def entities(first, last):
    return (Entity(f"Q{i}", f"thing {i}") for i in range(first, last))


@pytest.fixture(params=["exact", "IVF8,SQ8"])
def project(request, tmp_path):
    kb = build_kb(entities(0, 500), tmp_path / "kb")
    store = encode_names(kb, Seeded(), tmp_path / "vectors", encoder_name="seeded")
    plan = IndexPlan(request.param, 8 if request.param != "exact" else 0, 0.0, "for this test")
    build_index(store, tmp_path / "index", plan=plan, recall=0.9)
    return kb, tmp_path


def check(kb, folder, k=9):
    """Answers are those of vectors that are encoded anew, and no removed row is among them."""
    index = open_vectors(folder, kb, encoder_name="seeded")
    fresh = encode_names(kb, Seeded(), folder / "fresh", encoder_name="seeded", overwrite=True)
    values = np.random.default_rng(5).normal(size=(40, DIM)).astype(np.float32)
    live = kb.live_rows()
    exact = exact_search(values, fresh, len(kb))
    expected = np.stack([rows[np.isin(rows, live)][:k] for rows in exact.rows])
    np.testing.assert_array_equal(index.exact(values, k).rows, expected)
    if index.plan.factory == "exact":
        np.testing.assert_array_equal(index.search(values, k).rows, expected)
    else:
        index.probes = 8  # all lists: only the 8 bits differ
        hits = index.search(values, k)
        assert np.mean(hits.rows[:, 0] == expected[:, 0]) > 0.8
        everything = index.search(values[:3], len(kb) + 5).rows
        assert all(sorted(row[row >= 0].tolist()) == live.tolist() for row in everything)
    beyond = index.search(values[:1], len(kb) + 5).rows
    assert np.count_nonzero(beyond >= 0) == len(live)


def test_vectors_follow_edits(project):
    kb, folder = project
    encoder, lines = Seeded(), []
    kb = remove_entities(kb, [f"Q{i}" for i in range(100, 160)])
    with pytest.raises(FolderError, match="kb is"):
        open_vectors(folder, kb, encoder_name="seeded")
    update_vectors(folder, kb)  # nothing is encoded, so no encoder is needed
    check(kb, folder)
    kb = add_entities(kb, [*entities(500, 531), *entities(100, 102)])
    with pytest.raises(ValueError, match=r"33 new entities to encode with 'seeded'; expected an encoder"):
        update_vectors(folder, kb)
    update_vectors(folder, kb, lambda name: encoder, batch=10, say=lines.append)
    assert encoder.asked == [f"thing {i}" for i in [*range(500, 531), 100, 101]]
    assert lines[0] == "33 new entities to encode with seeded"
    check(kb, folder)
    kb = compact(remove_entities(kb, ["Q0", "Q530"]))
    update_vectors(folder, kb)
    check(kb, folder)
    assert VectorStore(folder / "vectors").removed is None
    update_vectors(folder, kb)  # again: nothing to do
    check(kb, folder)
    assert encoder.asked[-1] == "thing 101"


def test_a_killed_update_continues(project, monkeypatch):
    kb, folder = project
    kb = add_entities(remove_entities(kb, ["Q7"]), entities(500, 503))
    from oven_retrieval import encoding

    real = encoding.update_index
    monkeypatch.setattr(encoding, "update_index", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        update_vectors(folder, kb, lambda name: Seeded())
    store = VectorStore(folder / "vectors", kb=kb.hash)
    with pytest.raises(FolderError, match="bring it up to date, or build it again"):
        open_index(folder / "index", store)
    monkeypatch.setattr(encoding, "update_index", real)
    update_vectors(folder, kb)
    check(kb, folder)


@pytest.mark.parametrize("stale", [False, True])
def test_compacting_twice_keeps_what_indexes_follow_from(project, stale):
    """No vector changes when nothing was removed, but the next edit has to know the entities that it follows."""
    kb, folder = project
    for _ in range(2):
        kb = compact(kb)
        update_vectors(folder, kb)
    if stale:  # as earlier versions left it: the vectors follow, the index names entities that are forgotten
        manifest = json.loads((folder / "index" / "manifest.json").read_text())
        manifest["meta"]["kb"] = "f" * 64
        (folder / "index" / "manifest.json").write_text(json.dumps(manifest))
    update_vectors(folder, add_entities(kb, entities(500, 503)), lambda name: Seeded())
    check(KnowledgeBase(folder / "kb"), folder)


def test_vectors_of_others_are_refused(project, tmp_path):
    _, folder = project
    other = build_kb(entities(0, 5), tmp_path / "other")
    with pytest.raises(FolderError, match=r"which .*other has never held; encode again"):
        update_vectors(folder, other)
    index = VectorIndex(VectorStore(folder / "vectors"), IndexPlan("exact", 0, 0.0, ""))
    assert search_features(index, np.ones((1, DIM)), 2).rows.shape == (1, 2)
