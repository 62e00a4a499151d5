"""Vectors on disk, exact search, the planner and the index."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import faiss
import numpy as np
import pytest

from oven_retrieval import FolderError
from oven_retrieval.folder import Folder
from oven_retrieval.ranking import Ranking
from oven_retrieval.vectors import (
    ArrayRows,
    VectorStore,
    build_index,
    build_vectors,
    exact_search,
    open_index,
    update_index,
)
from oven_retrieval.vectors import store as store_module
from oven_retrieval.vectors.exact import BLAS_QUERIES, blas_from, merge, recall_at
from oven_retrieval.vectors.index import KIND
from oven_retrieval.vectors.plan import plan_index


def unit(seed, rows, dim, centres=40):
    """Clustered unit vectors, as encoders give them."""
    rng = np.random.default_rng(seed)
    middle = np.random.default_rng(99).normal(size=(centres, dim))
    vectors = middle[rng.integers(0, centres, rows)] + 0.6 * rng.normal(size=(rows, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def store(tmp_path, rows=3000, dim=24, dtype=np.float32, **options):
    vectors = unit(0, rows, dim)
    options = {"kb": "k1", "encoder": "e1", "dtype": dtype, **options}
    return build_vectors(lambda a, b: vectors[a:b], rows, tmp_path / "vectors", **options), vectors


@pytest.mark.parametrize(
    ("queries", "rows", "dim", "k", "chunk"),
    [
        (1, 1, 1, 1, None),
        (3, 7, 5, 9, 2),
        (4, 50_000, 33, 7, None),
        (5, 501, 33, 7, None),
        (65, 301, 33, 10, 64),
        (200, 1000, 8, 3, 999),
    ],
)
def test_exact_search_equals_float64(queries, rows, dim, k, chunk):
    query_vectors, base = unit(1, queries, dim), unit(2, rows, dim)
    ranking = exact_search(query_vectors, ArrayRows(base), k, chunk=chunk)
    product = query_vectors.astype(np.float64) @ base.astype(np.float64).T
    best = np.sort(product, axis=1)[:, ::-1][:, :k]
    np.testing.assert_allclose(ranking.scores[:, : best.shape[1]], best, atol=2e-6)
    np.testing.assert_allclose(np.take_along_axis(product, ranking.rows[:, : best.shape[1]], 1), best, atol=2e-6)
    assert np.all(ranking.rows[:, rows:] == -1)
    assert np.all(np.isneginf(ranking.scores[:, rows:]))


def test_exact_search_leaves_the_process_s_setting():
    before = faiss.cvar.distance_compute_blas_threshold
    with blas_from(BLAS_QUERIES * 16):
        assert faiss.cvar.distance_compute_blas_threshold == BLAS_QUERIES * 16
    with pytest.raises(KeyError), blas_from(7):
        raise KeyError
    exact_search(np.ones((2, 3)), ArrayRows(np.ones((4, 3))), 2)
    assert faiss.cvar.distance_compute_blas_threshold == before
    assert exact_search(np.ones((0, 3)), ArrayRows(np.ones((4, 3))), 2).rows.shape == (0, 2)


def test_threads_that_overlap_leave_the_process_s_setting():
    """The one that entered first leaves first: what the second found on entering is not the old value."""
    before = faiss.cvar.distance_compute_blas_threshold
    first, second = blas_from(before + 1), blas_from(before + 2)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    left = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = before  # other tests go on with it
    assert left == before


def test_ties_over_chunks_go_to_the_earlier_row():
    ranking = exact_search(np.ones((1, 2)), ArrayRows(np.ones((9, 2))), 9, chunk=2)
    assert ranking.rows.tolist() == [list(range(9))]
    left = Ranking(np.array([[5]]), np.array([[1.0]], np.float32))
    right = Ranking(np.array([[3]]), np.array([[1.0]], np.float32))
    assert merge(left, right, 2).rows.tolist() == merge(right, left, 2).rows.tolist() == [[3, 5]]


@pytest.mark.parametrize("chunk", [None, 37, 64, 501])
def test_equal_vectors_come_by_row_whatever_the_shape(chunk):
    """Sums of a product depend on its shape: equal vectors lie at odd places, and more of them than are asked for."""
    base = unit(2, 501, 33)
    base[[7, 100, 101, 103, 211, 212, 350, 499]] = base[350]
    base[250:290] = base[3]
    for batch in (1, 2, 5, 40):
        rows = np.concatenate([base[[350, 3]], unit(1, batch, 33)])[-max(batch, 2) :]
        rows[:2] = base[[350, 3]]
        for k in (1, 5, 9, 45):
            ranking = exact_search(rows, ArrayRows(base), k, chunk=chunk)
            exact = (rows.astype(np.float64)[:, None] * base.astype(np.float64)).sum(axis=2)
            # Equal to the last bit of float32 where vectors are equal; other rows do not tie in this draw.
            expected = np.lexsort((np.broadcast_to(np.arange(501), exact.shape), -exact.astype(np.float32)), axis=1)
            np.testing.assert_array_equal(ranking.rows, expected[:, :k])
            np.testing.assert_allclose(
                ranking.scores, np.take_along_axis(exact, ranking.rows, 1), rtol=2e-7, atol=1e-12
            )


@pytest.mark.parametrize(
    ("queries", "k", "expected"),
    [
        (np.ones((2, 4)), 1, r"queries: expected shape \[n, 3\], got \[2, 4\]"),
        (np.array([[1, 2, 3], [1, np.nan, 3]]), 1, "queries: row 1 holds NaN or infinity"),
        (np.ones(3), 1, r"queries: expected shape \[n, 3\], got \[3\]"),
        (np.ones((1, 3)), 0, "k: expected an integer of at least 1, got 0"),
    ],
)
def test_bad_queries_are_refused(queries, k, expected):
    with pytest.raises(ValueError, match=expected):
        exact_search(queries, ArrayRows(np.ones((4, 3))), k)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_store_round_trip(tmp_path, dtype):
    stored, vectors = store(tmp_path, rows=70, dtype=dtype, chunk=32)
    np.testing.assert_allclose(stored.rows(0, 70), vectors, atol=5e-4 if dtype == np.float16 else 0)
    assert (len(stored), stored.dim) == (70, 24)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["vectors"]
    VectorStore(tmp_path / "vectors", kb="k1", encoder="e1", verify=True)
    with pytest.raises(FolderError, match="kb is 'k1', expected 'k2'"):
        VectorStore(tmp_path / "vectors", kb="k2")
    with pytest.raises(FolderError, match="encoder is 'e1', expected 'other'"):
        VectorStore(tmp_path / "vectors", encoder="other")


def test_a_killed_encoding_continues(tmp_path):
    vectors, requests = unit(0, 100, 6), []

    def encode(first, last, limit):
        requests.append((first, last))
        if last > limit:
            raise KeyboardInterrupt
        return vectors[first:last]

    build = {"kb": "k", "encoder": "e", "dtype": np.float32, "chunk": 30}
    with pytest.raises(KeyboardInterrupt):
        build_vectors(lambda a, b: encode(a, b, 60), 100, tmp_path / "v", **build)
    with (tmp_path / "v.rows" / "vectors.raw").open("ab") as file:
        file.write(b"half a chunk that was not finished")
    with pytest.raises(FolderError, match=r"unfinished build with other encoder is there \('e', expected 'f'\)"):
        build_vectors(lambda a, b: vectors[a:b], 100, tmp_path / "v", **{**build, "encoder": "f"})
    requests.clear()
    stored = build_vectors(lambda a, b: encode(a, b, 100), 100, tmp_path / "v", **build)
    assert requests == [(60, 90), (90, 100)]
    np.testing.assert_array_equal(stored.rows(0, 100), vectors)
    with pytest.raises(KeyboardInterrupt):
        build_vectors(lambda a, b: encode(a, b, 60), 100, tmp_path / "w", **build)
    with (tmp_path / "w.rows" / "vectors.raw").open("r+b") as file:
        file.truncate(700)  # as after a loss of power
    stored = build_vectors(lambda a, b: encode(a, b, 100), 100, tmp_path / "w", **build)
    np.testing.assert_array_equal(stored.rows(0, 100), vectors)


def test_bad_vectors_are_refused(tmp_path):
    values = np.ones((9, 3))
    values[7, 1] = np.inf
    with pytest.raises(ValueError, match="vectors: row 7 holds NaN or infinity"):
        build_vectors(lambda a, b: values[a:b], 9, tmp_path / "a", kb="k", encoder="e", chunk=5)
    with pytest.raises(ValueError, match="vectors as float16: row 0 holds NaN or infinity"):
        build_vectors(lambda a, b: np.full((b - a, 3), 1e6), 9, tmp_path / "b", kb="k", encoder="e")
    with pytest.raises(ValueError, match=r"expected 9 rows for 0..8, got 2"):
        build_vectors(lambda a, b: np.ones((2, 3)), 9, tmp_path / "c", kb="k", encoder="e")
    with pytest.raises(ValueError, match="dtype: expected float16 or float32, got float64"):
        build_vectors(lambda a, b: values, 9, tmp_path / "d", kb="k", encoder="e", dtype=np.float64)
    with pytest.raises(ValueError, match="count, chunk: expected at least 0 and 1, got -1, 1024"):
        build_vectors(lambda a, b: values, -1, tmp_path / "d", kb="k", encoder="e")


@pytest.mark.parametrize(
    ("count", "memory", "recall", "expected"),
    [(20_000, None, 0.96, "exact"), (20_001, None, 0.96, "IVF256,SQ8"), (20_001, None, 1.0, "exact"),
     (6_063_945, None, 0.96, "IVF8192,SQ8"), (6_063_945, 2500, 0.9, "IVF8192,SQ4")],
)  # fmt: skip
def test_plans(count, memory, recall, expected):
    plan = plan_index(count, 768, memory_mb=memory, recall=recall)
    assert plan.factory == expected
    assert memory is None or plan.megabytes <= memory


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"count": 0, "dim": 3}, "count, dim: expected at least 1, got 0, 3"),
        ({"count": 5, "dim": 3, "recall": 1.2}, "recall: expected above 0 and at most 1, got 1.2"),
        ({"count": 5, "dim": 3, "memory_mb": float("nan")}, "memory_mb: expected above 0, got nan"),
        (
            {"count": 10**6, "dim": 512, "memory_mb": 10},
            "no index of 1,000,000 x 512 fits in 10 MB; the smallest takes 272 MB",
        ),
    ],
)
def test_impossible_plans_are_refused(arguments, expected):
    with pytest.raises(ValueError, match=expected):
        plan_index(**arguments)


def ivf(rows):
    plan = plan_index(30_000, 24)
    return type(plan)("IVF16,SQ8", 16, 1.0, f"{rows} rows in 16 lists")


def test_index_is_tuned_measured_and_saved(tmp_path):
    stored, vectors = store(tmp_path)
    queries = unit(3, 200, 24)
    lines = []
    options = {"plan": ivf(3000), "recall": 0.9, "queries": queries}
    built = build_index(stored, tmp_path / "index", **options, say=lines.append)
    assert "against exact search on 200 given queries" in lines[-1]
    report = built.report
    assert report.recall_1 >= 0.9
    assert report.cross_modal
    hits, exact = built.search(queries, 10), exact_search(queries, ArrayRows(vectors), 10)
    assert recall_at(hits.rows, exact.rows, 1) == report.recall_1
    assert recall_at(hits.rows, exact.rows, 10) == report.recall_10
    loaded = open_index(tmp_path / "index", stored)
    assert loaded.report == report
    assert loaded.probes == report.probes
    np.testing.assert_array_equal(loaded.search(queries, 10).rows, hits.rows)
    built.probes = 16  # all lists: only the 8 bits differ from exact
    whole = built.search(queries, 10)
    assert recall_at(whole.rows, exact.rows, 1) > 0.9
    true = np.take_along_axis(queries @ vectors.T, whole.rows, 1)
    assert np.abs(whole.scores - true).mean() < 0.01
    assert sorted(p.name for p in tmp_path.iterdir()) == ["index", "vectors"]


@pytest.mark.parametrize("wrong", [300, 2**40, -7])
def test_an_index_whose_rows_are_not_there_is_refused(tmp_path, wrong):
    stored, vectors = store(tmp_path, rows=300)
    build_index(stored, tmp_path / "index", plan=ivf(300), queries=vectors[:20])
    file = Folder(tmp_path / "index", KIND).file("index")
    changed = faiss.read_index(str(file))
    ids = np.arange(300)
    ids[7] = wrong
    changed.reset()
    changed.add_with_ids(vectors, ids)
    faiss.write_index(changed, str(file))
    opened = open_index(tmp_path / "index", stored, verify=False)
    opened.probes = 16
    with pytest.raises(FolderError, match=rf"names row {wrong}, .*vectors has 300: it was changed; rebuild"):
        opened.search(vectors[7:8])


def test_an_exact_plan_needs_no_index(tmp_path):
    stored, _ = store(tmp_path, rows=50)
    built = build_index(stored, tmp_path / "index")
    assert (built.plan.factory, built.probes, built.report.recall_1) == ("exact", 0, 1.0)
    assert "other modalities find less" in str(built.report)
    loaded = open_index(tmp_path / "index", stored)
    assert loaded.search(stored.rows(3, 4), 60).rows[0].tolist()[0] == 3
    other = build_vectors(lambda a, b: np.ones((b - a, 2)), 5, tmp_path / "other", kb="k", encoder="e")
    with pytest.raises(FolderError, match=f"built from the vectors {stored.hash[:12]}…, expected those of .*other"):
        open_index(tmp_path / "index", other)


def test_a_damaged_index_is_not_read(tmp_path):
    stored, _ = store(tmp_path)
    build_index(stored, tmp_path / "index", plan=ivf(3000))
    file = tmp_path / "index" / "index.bin"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(FolderError, match="its bytes have changed"):
        open_index(tmp_path / "index", stored)
    signed = tmp_path / "index" / "manifest.json"
    manifest = json.loads(signed.read_text())
    file.write_bytes(b"IxFI" + b"\xff" * (len(data) - 4))
    manifest["columns"]["index"]["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    signed.write_text(json.dumps(manifest))
    with pytest.raises(FolderError, match="FAISS cannot read it"):
        open_index(tmp_path / "index", stored)
    manifest["meta"]["plan"] = {"module": "evil"}
    signed.write_text(json.dumps(manifest))
    with pytest.raises(FolderError, match="no plan or no report"):
        open_index(tmp_path / "index", stored)


def signed(folder, content):
    """Other bytes in the place of FAISS's index, with the right digest, as anyone can compute it."""
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "index.bin").write_bytes(content)
    column = manifest["columns"]["index"]
    column |= {"sha256": hashlib.sha256(content).hexdigest(), "shape": [len(content)]}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def of_faiss(factory, dim=24, metric=faiss.METRIC_INNER_PRODUCT, probes=1):
    index = faiss.index_factory(dim, factory, metric)
    index.train(unit(1, 400, dim))
    index.add(unit(1, 400, dim))
    if "IVF" in factory:
        faiss.extract_index_ivf(index).nprobe = probes
    return faiss.serialize_index(index).tobytes()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"factory": "Flat"}, "FAISS cannot read it"),
        ({"factory": "IVF4,SQ8", "dim": 8}, "an index of 8 numbers"),
        ({"factory": "IVF4,SQ8", "dim": 48}, "an index of 48 numbers"),
        ({"factory": "IVF4,SQ8", "metric": faiss.METRIC_L2}, "metric 1"),
        ({"factory": "IVF4,SQ8", "probes": 0}, "0 probes"),
    ],
)
def test_an_index_of_another_kind_is_refused_and_made_anew(tmp_path, settings, message):
    stored, _ = store(tmp_path)
    build_index(stored, tmp_path / "index", plan=ivf(3000))
    signed(tmp_path / "index", of_faiss(**settings))
    with pytest.raises(FolderError, match=message):
        open_index(tmp_path / "index", stored)


@pytest.mark.skipif(not hasattr(faiss, "set_deserialization_vector_byte_limit"), reason="FAISS has no limits")
def test_an_index_asks_for_no_more_room_than_its_file(tmp_path):
    stored, _ = store(tmp_path)
    build_index(stored, tmp_path / "index", plan=ivf(3000))
    whole, before = (tmp_path / "index" / "index.bin").read_bytes(), faiss.get_deserialization_vector_byte_limit()
    sizes = [at for at in range(400) if whole[at : at + 8] == len(stored).to_bytes(8, "little")]
    flat = whole.index(b"IxFI")  # the centroids: their count, then so many numbers
    counted = next(
        at for at in range(flat, len(whole)) if whole[at : at + 8] == (24 * ivf(3000).lists).to_bytes(8, "little")
    )
    assert sizes
    content = bytearray(whole)
    content[counted : counted + 8] = (3 << 28).to_bytes(8, "little")
    signed(tmp_path / "index", bytes(content))
    with pytest.raises(FolderError, match=r"FAISS cannot read it .*limit"):
        open_index(tmp_path / "index", stored)
    assert faiss.get_deserialization_vector_byte_limit() == before


@pytest.mark.parametrize("odd", [2**62, -5])
def test_odd_row_numbers_of_an_index_are_gone_after_an_update(tmp_path, odd):
    stored, vectors = store(tmp_path)
    before = build_index(stored, tmp_path / "index", plan=ivf(3000), queries=vectors[:20])
    index = faiss.deserialize_index(np.fromfile(tmp_path / "index" / "index.bin", np.uint8))
    index.add_with_ids(vectors[:1], np.array([odd]))
    signed(tmp_path / "index", faiss.serialize_index(index).tobytes())
    later = build_vectors(lambda a, b: vectors[a:b], 2999, tmp_path / "later", kb="k2", encoder="e1", dtype=np.float32)
    updated = update_index(tmp_path / "index", later)
    assert updated.search(vectors[:50], 3).rows.max() < 2999
    assert updated._index.ntotal == 2999
    assert (updated.plan, updated.probes >= before.probes) == (before.plan, True)


def test_recall_counts_within_k():
    exact = np.array([[1, 2, 3], [4, -1, -1]])
    assert recall_at(np.array([[3, 1, 2], [4, 5, 6]]), exact, 1) == 0.5
    assert recall_at(np.array([[3, 1, 9], [4, 5, 6]]), exact, 3) == 0.75
    with pytest.raises(ValueError, match="k: expected at most 3"):
        recall_at(exact, exact, 4)


def test_a_full_disk_keeps_what_is_done(tmp_path, monkeypatch):
    vectors = unit(0, 100, 6)

    class Full(np.ndarray):
        """The disk is full from row 60 on."""

        def tofile(self, file):
            if len(self) and np.array_equal(self[0], vectors[60]):
                raise OSError(28, "No space left on device")
            np.asarray(self).tofile(file)

        def astype(self, *args, **kwargs):
            return super().astype(*args, **kwargs).view(Full)

    build = {"kb": "k", "encoder": "e", "dtype": np.float32, "chunk": 30}
    real = store_module.check_vectors
    monkeypatch.setattr(store_module, "check_vectors", lambda *args: real(*args).view(Full))
    with pytest.raises(OSError, match=r"vectors.raw: cannot be written .*No space left.*; the 60 rows there are kept"):
        build_vectors(lambda a, b: vectors[a:b], 100, tmp_path / "v", **build)
    monkeypatch.undo()
    stored = build_vectors(lambda a, b: vectors[a:b], 100, tmp_path / "v", **build)
    np.testing.assert_array_equal(stored.rows(0, 100), vectors)

    def full(index, file):
        Path(file).write_bytes(b"half")
        raise RuntimeError("Error in fwrite: No space left on device")

    monkeypatch.setattr(faiss, "write_index", full)
    stored, _ = store(tmp_path)
    with pytest.raises(OSError, match=r"index.faiss: cannot be written .*No space left"):
        build_index(stored, tmp_path / "index", plan=ivf(3000))
    assert not list(tmp_path.rglob("*.partial"))
    assert not list(tmp_path.rglob("*.faiss"))
    monkeypatch.undo()
    assert build_index(stored, tmp_path / "index", plan=ivf(3000)).report.recall_1 > 0


def test_vectors_may_be_an_array(tmp_path):
    array = np.random.default_rng(0).normal(size=(10, 4))
    store = build_vectors(array, 10, tmp_path / "v", kb="k", encoder="m", dtype=np.float32, chunk=3)
    np.testing.assert_array_equal(store.rows(0, 10), array.astype(np.float32))
    with pytest.raises(ValueError, match=r"encode: expected a function, or an array of 9 rows, got shape \[10, 4\]"):
        build_vectors(array, 9, tmp_path / "w", kb="k", encoder="m")


@pytest.mark.parametrize(
    ("factor", "dtype", "refused"),
    [(1e-9, "float16", True), (1e-6, "float16", True), (1e-3, "float16", False), (1e-9, "float32", False)],
)
def test_vectors_that_are_too_small_for_their_type_are_refused(tmp_path, factor, dtype, refused):
    values = np.random.default_rng(0).normal(size=(9, 4))
    values[7] *= factor
    values[8] = 0  # has no direction in any type
    if refused:
        with pytest.raises(ValueError, match=r"vectors as float16: row 7 has no number beyond .* length 1"):
            build_vectors(values, 9, tmp_path / "v", kb="k", encoder="e", dtype=dtype, chunk=2)
    else:
        stored = build_vectors(values, 9, tmp_path / "v", kb="k", encoder="e", dtype=dtype, chunk=2).rows(7, 8)
        np.testing.assert_allclose(stored[0], values[7], rtol=1e-3)
