"""Exports into the embedded modes of Qdrant and Milvus: what is stored, resuming, counts, search."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from oven_retrieval import Entity, build_kb, remove_entities
from oven_retrieval.export import ExportError, check_export, export_kb, open_collection
from oven_retrieval.vectors import build_vectors, exact_search

pytestmark = pytest.mark.filterwarnings("ignore")  # the clients' own: deprecations and unclosed connections inside


@pytest.fixture
def base(tmp_path):
    values = np.random.default_rng(0).normal(size=(57, 8)).astype(np.float32)
    kb = build_kb(
        (Entity(f"Q{i}", f"thing {i} 鴨", description="d" * (i * 2000), category="c") for i in range(57)),
        tmp_path / "kb",
    )
    return kb, build_vectors(lambda a, b: values[a:b], 57, tmp_path / "v", kb=kb.hash, encoder="e", dtype=np.float32)


class Dying:
    """A collection whose connection breaks after some writes."""

    def __init__(self, collection, writes):
        self._collection, self._left = collection, writes

    def __getattr__(self, name):
        return getattr(self._collection, name)

    def write(self, records, vectors):
        if not self._left:
            raise ConnectionError
        self._left -= 1
        self._collection.write(records, vectors)


@pytest.mark.parametrize("kind", ["qdrant", "milvus"])
def test_an_export_is_whole_searched_and_resumed(base, tmp_path, kind):
    pytest.importorskip("qdrant_client" if kind == "qdrant" else "pymilvus")
    if kind == "milvus":
        pytest.importorskip("milvus_lite")
    kb, vectors = base
    target = str(tmp_path / "db.db")
    collection = open_collection(kind, target, "entities")
    with pytest.raises(ConnectionError):
        export_kb(kb, vectors, Dying(collection, 2), batch=10)
    steps = []
    done = export_kb(kb, vectors, collection, batch=10, progress=lambda *step: steps.append(step))
    assert (done.total, done.written) == (57, 37)
    assert steps == [("entities", there, 57) for there in (30, 40, 50, 57)]
    assert export_kb(kb, vectors, collection, batch=10).written == 0
    values = np.random.default_rng(1).normal(size=(9, 8)).astype(np.float32)
    hits, exact = collection.search(values, 12), exact_search(values, vectors, 12)
    np.testing.assert_array_equal(hits.rows, exact.rows)
    np.testing.assert_allclose(hits.scores, exact.scores, rtol=1e-5, atol=1e-6)
    assert check_export(kb, vectors, collection) == 1.0
    assert collection.source(3) == f"{kb.hash[:16]} {vectors.hash[:16]}"
    assert collection.source(99) is None

    other = build_kb([Entity("Q1", "a"), Entity("Q2", "b")], tmp_path / "kb2")
    wide = build_vectors(lambda a, b: np.ones((b - a, 5)), 2, tmp_path / "v2", kb=other.hash, encoder="e")
    with pytest.raises(ExportError, match=r"entities: is there with .*expected (vectors of )?5"):
        export_kb(other, wide, collection)
    same = build_vectors(lambda a, b: np.ones((b - a, 8)), 2, tmp_path / "v3", kb=other.hash, encoder="e")
    with pytest.raises(ExportError, match=r"entities: holds 57 vectors of \w+ \w+, expected of"):
        export_kb(other, same, collection)
    collection.close()


def test_qdrant_keeps_the_record_and_leaves_removed_entities_out(base, tmp_path):
    client = pytest.importorskip("qdrant_client")
    kb, vectors = base
    edited = remove_entities(kb, ["Q3", "Q50"])
    with pytest.raises(ValueError, match=r"v: of the entities \w+…, expected those of"):
        export_kb(edited, vectors, open_collection("qdrant", str(tmp_path / "q"), "e"))
    moved = build_vectors(vectors.rows, 57, tmp_path / "v2", kb=edited.hash, encoder="e", dtype=np.float32)
    collection = open_collection("qdrant", str(tmp_path / "q2"), "e")
    assert export_kb(edited, moved, collection, batch=13).total == 55
    assert check_export(edited, moved, collection, queries=55) == 1.0
    collection.close()
    reader = client.QdrantClient(path=str(tmp_path / "q2"))
    point = reader.retrieve("e", [4], with_payload=True, with_vectors=True)[0]
    assert point.payload["entity_id"] == "Q4"
    assert (point.payload["name"], point.payload["category"]) == ("thing 4 鴨", "c")
    assert len(point.payload["description"]) == 8000
    np.testing.assert_allclose(point.vector, vectors.rows(4, 5)[0], rtol=1e-6)
    assert reader.retrieve("e", [3]) == []
    reader.close()


def test_a_count_that_is_wrong_is_an_error(base):
    kb, vectors = base

    class Forgetful:
        name, errors = "leaky", (TimeoutError,)

        def __init__(self):
            self.rows = set()

        def prepare(self, dim):
            assert dim == 8

        def count(self):
            return len(self.rows)

        def source(self, row):
            return None

        def write(self, records, vectors):
            self.rows |= {record.row for record in records if record.row != 20}

        def finish(self):
            pass

    with pytest.raises(ExportError, match="leaky: holds 56 vectors after the export, expected 57"):
        export_kb(kb, vectors, Forgetful(), batch=7)
    broken = Forgetful()
    broken.prepare = lambda dim: (_ for _ in ()).throw(TimeoutError("no  answer"))
    with pytest.raises(ExportError, match="leaky: no answer; the same call continues"):
        export_kb(kb, vectors, broken)
    with pytest.raises(ValueError, match="batch: expected at least 1, got 0"):
        export_kb(kb, vectors, Forgetful(), batch=0)
    with pytest.raises(ValueError, match=r"to: expected one of \['qdrant', 'milvus'\], got 'faiss'"):
        open_collection("faiss", "x", "y")


def test_every_request_to_milvus_has_a_deadline(tmp_path):
    pytest.importorskip("pymilvus")
    pytest.importorskip("milvus_lite")
    from oven_retrieval.export.milvus import MilvusCollection
    from oven_retrieval.export.target import Record

    collection = MilvusCollection(str(tmp_path / "d.db"), "e", timeout=47)
    client, requests = collection._client, []

    class Listening:
        def __getattr__(self, name):
            def request(*arguments, **options):
                if arguments[:1] == ("e",):
                    requests.append((name, options.get("timeout")))
                return getattr(client, name)(*arguments, **options)

            return request

    collection._client = Listening()
    collection.prepare(8)
    collection.prepare(8)
    values = dict.fromkeys(Record._fields, "x") | {"row": 3}
    collection.write([Record(**values)], np.ones((1, 8), np.float32))
    collection.finish()
    collection.search(np.ones((1, 8), np.float32), 1)
    assert collection.count() == 1
    assert collection.source(3) == "x"
    assert {"has_collection", "create_collection", "upsert", "flush", "search", "query"} <= {
        name for name, _ in requests
    }
    assert {limit for _, limit in requests} == {47}


def test_targets_that_cannot_be():
    pytest.importorskip("pymilvus")
    with pytest.raises(ExportError, match=r"expected http://…, https://… or a path that ends in .db, got 'folder'"):
        open_collection("milvus", "folder", "e")


LISTENING = """
import sys, tempfile
from pathlib import Path
import numpy as np
import psutil
from oven_retrieval.export import open_collection

def listening():
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return [one.laddr for process in family for one in process.net_connections("inet") if one.status == "LISTEN"]

collection = open_collection(sys.argv[1], str(Path(tempfile.mkdtemp()) / "db.db"), "entities")
collection.prepare(4)
print(collection.count(), [place for place in listening() if place.ip not in ("127.0.0.1", "::1", "::ffff:127.0.0.1")])
"""


@pytest.mark.parametrize("kind", ["qdrant", "milvus"])
def test_the_embedded_modes_listen_to_nobody_else(kind):
    pytest.importorskip("psutil")
    pytest.importorskip("qdrant_client" if kind == "qdrant" else "milvus_lite")
    command = [sys.executable, "-W", "ignore", "-c", LISTENING, kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "0 []"
