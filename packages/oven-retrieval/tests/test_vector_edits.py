"""Vectors and indexes follow a knowledge base whose entities come and go."""

from __future__ import annotations

import numpy as np
import pytest

from oven_retrieval import Entity, FolderError, add_entities, build_kb, remove_entities
from oven_retrieval.encoding import encode_names, open_vectors, update_vectors
from oven_retrieval.folder_writer import FolderWriter
from oven_retrieval.vectors import VectorStore, build_index, exact_search, open_index
from oven_retrieval.vectors.plan import IndexPlan
from oven_retrieval.vectors.store import KIND

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
    """Answers are those of vectors that are encoded anew."""
    index = open_vectors(folder, kb, encoder_name="seeded")
    fresh = encode_names(kb, Seeded(), folder / "fresh", encoder_name="seeded", overwrite=True)
    values = np.random.default_rng(5).normal(size=(40, DIM)).astype(np.float32)
    np.testing.assert_array_equal(index.vectors.array, fresh.array)
    expected = exact_search(values, fresh, k).rows
    index.probes = index.plan.lists  # all of them: only the 8 bits differ
    assert np.mean(index.search(values, k).rows[:, 0] == expected[:, 0]) > (0.8 if index.plan.lists else 0.999)
    beyond = index.search(values[:3], len(kb) + 5).rows
    assert all(sorted(row[row >= 0].tolist()) == list(range(len(kb))) for row in beyond)


def test_vectors_follow_edits(project):
    kb, folder = project
    encoder, lines = Seeded(), []
    kb = remove_entities(kb, [f"Q{i}" for i in range(100, 160)])
    with pytest.raises(FolderError, match="kb is"):
        open_vectors(folder, kb, encoder_name="seeded")
    update_vectors(folder, kb)  # nothing is encoded, so no encoder is needed
    check(kb, folder)
    kb = add_entities(kb, [*entities(500, 531), *entities(100, 102)])
    with pytest.raises(ValueError, match=r"new texts to encode with 'seeded'; expected an encoder"):
        update_vectors(folder, kb)
    update_vectors(folder, kb, lambda name: encoder, batch=10, say=lines.append)
    assert encoder.asked == [f"thing {i}" for i in [*range(500, 531), 100, 101]]
    assert lines[0] == "new texts to encode with seeded"
    check(kb, folder)
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


def test_what_a_killed_encoding_left_does_not_hinder_the_next_edit(tmp_path):
    kb = build_kb(entities(0, 40), tmp_path / "kb")
    encode_names(kb, Seeded(), tmp_path / "vectors", encoder_name="seeded")

    class Killed(Seeded):
        def encode_text(self, texts):
            if self.asked:
                raise KeyboardInterrupt
            return super().encode_text(texts)

    kb = add_entities(kb, entities(40, 80))
    with pytest.raises(KeyboardInterrupt):
        update_vectors(tmp_path, kb, lambda name: Killed(), batch=50)
    assert (tmp_path / "vectors.rows").is_dir()
    kb = add_entities(kb, entities(80, 90))
    update_vectors(tmp_path, kb, lambda name: Seeded(), batch=50)
    check(kb, tmp_path)
    assert not (tmp_path / "vectors.rows").exists()


def test_what_was_damaged_is_not_copied_under_new_digests(tmp_path):
    kb = build_kb(entities(0, 40), tmp_path / "kb")
    encode_names(kb, Seeded(), tmp_path / "vectors", encoder_name="seeded")

    def damage(file):
        content = bytearray((tmp_path / file).read_bytes())
        content[5] ^= 1
        (tmp_path / file).write_bytes(content)

    damage("vectors/vectors.bin")
    encoder = Seeded()
    encode_names(kb, encoder, tmp_path / "vectors", encoder_name="seeded", overwrite=True)
    assert len(encoder.asked) == 40
    damage("kb/name.utf8.bin")
    with pytest.raises(FolderError, match=r"name.utf8.bin, row 0: its bytes have changed"):
        encode_names(kb, Seeded(), tmp_path / "vectors", encoder_name="seeded", overwrite=True)
    for edit in (lambda: add_entities(kb, entities(40, 41)), lambda: remove_entities(kb, ["Q3"])):
        with pytest.raises(FolderError, match=r"name.utf8.bin: its bytes have changed"):
            edit()


def test_vectors_of_other_texts_by_another_encoder_or_of_an_earlier_version_are_not_taken_over(tmp_path):
    kb = build_kb(entities(0, 5), tmp_path / "kb")
    encode_names(kb, Seeded(), tmp_path / "vectors", encoder_name="seeded")
    for name, template in (("seeded", "description"), ("another", "name")):
        encoder = Seeded()
        encode_names(kb, encoder, tmp_path / "vectors", encoder_name=name, template=template, overwrite=True)
        assert len(encoder.asked) == 5
    with FolderWriter(tmp_path / "old", KIND) as folder:
        folder.array("vectors", np.eye(5, dtype=np.float32))
        folder.array("removed", np.zeros(5, bool))
        folder.meta = {"kb": kb.hash, "encoder": "seeded; name"}
    with pytest.raises(FolderError, match=r"of oven-retrieval 0\.1, with rows of removed entities; encode again"):
        VectorStore(tmp_path / "old")
    encoder = Seeded()
    encode_names(kb, encoder, tmp_path / "old", encoder_name="seeded", overwrite=True)
    assert len(encoder.asked) == 5


def test_an_index_with_everything_removed_finds_nothing_and_takes_entities_again(project):
    kb, folder = project
    plan = open_vectors(folder, kb, encoder_name="seeded").plan
    kb = remove_entities(kb, kb.ids)
    updated = update_vectors(folder, kb)
    for index in (updated, open_vectors(folder, kb, encoder_name="seeded"), update_vectors(folder, kb)):
        assert (len(kb), len(index.vectors), index.vectors.dim) == (0, 0, DIM)
        assert index.search(np.ones((2, DIM)), 3).rows.tolist() == [[-1] * 3] * 2
    kb = add_entities(kb, entities(0, 400))
    assert update_vectors(folder, kb, lambda name: Seeded()).plan == plan
    check(kb, folder)


def test_vectors_of_no_entities_at_all_are_refused(tmp_path):
    kb = build_kb([], tmp_path / "kb")
    with pytest.raises(ValueError, match="expected at least one entity to encode, got none"):
        encode_names(kb, Seeded(), tmp_path / "vectors", encoder_name="seeded")
