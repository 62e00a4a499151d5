"""Shards by id: the same answers as one index over everything, in this process and on a local Ray cluster."""

from __future__ import annotations

import os
import signal
import tempfile

import numpy as np
import pytest

from oven_retrieval import Entity, build_kb, build_linker, remove_entities
from oven_retrieval.shards import ShardedSearch, ShardError, ShardLayout, build_shards
from oven_retrieval.shards import build as build_module
from oven_retrieval.shards.layout import shard_firsts
from oven_retrieval.vectors import ArrayRows, build_vectors, exact_search

WORDS = ["wood", "duck", "Gate", "GOLDEN", "river", "Bridge", "of", "the", "north", "old"]


def entities(count, seed=0):
    """Names that share words, with ties in score, spelling, aliases and popularity."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        name = " ".join(rng.choice(WORDS, rng.integers(1, 4)))
        aliases = tuple(" ".join(rng.choice(WORDS, rng.integers(1, 3))) for _ in range(rng.integers(0, 3)))
        yield Entity(f"Q{i}", name, aliases=aliases, popularity=float(rng.integers(0, 3)))


def queries(seed=1, count=120):
    rng = np.random.default_rng(seed)
    made = [" ".join(rng.choice([*WORDS, "nothing"], rng.integers(1, 5))) for _ in range(count)]
    return [*made, "", "nothing", "WOOD wood", "gate", "the the of"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    kb = build_kb(entities(203), folder / "kb")
    made = np.random.default_rng(3).normal(size=(203, 9)).astype(np.float32)
    made[50] = made[120]  # equal scores in different shards
    vectors = build_vectors(lambda a, b: made[a:b], 203, folder / "v", kb=kb.hash, encoder="e", dtype=np.float32)
    return kb, vectors, made


def same_links(found, expected):
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_array_equal(found.steps, expected.steps)
    np.testing.assert_array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("shards", [1, 2, 4, 11])
@pytest.mark.parametrize("exact_first", [True, False])
def test_links_equal_those_of_one_index(whole, tmp_path, shards, exact_first):
    kb, _, _ = whole
    search = ShardedSearch(build_shards(kb, tmp_path / "s", shards))
    linker = build_linker(kb)
    for k in (1, 7, 300):
        same_links(
            search.link(queries(), k, exact_first=exact_first), linker.link(queries(), k, exact_first=exact_first)
        )


def test_vectors_equal_exact_search(whole, tmp_path):
    kb, vectors, made = whole
    layout = build_shards(kb, tmp_path / "s", 4, vectors=vectors)
    search = ShardedSearch(ShardLayout.read(tmp_path / "s"))
    assert layout == search.layout
    asked = np.concatenate([np.random.default_rng(4).normal(size=(30, 9)).astype(np.float32), made[50:51]])
    for k in (1, 10, 210):
        found, expected = search.search(asked, k), exact_search(asked, ArrayRows(made), k)
        np.testing.assert_array_equal(found.rows, expected.rows)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)
    ordered = found.rows[-1].tolist()
    assert ordered.index(120) == ordered.index(50) + 1
    assert search.records(found.rows[:2, :3])[int(found.rows[0, 0])] == (
        kb.ids[int(found.rows[0, 0])],
        kb.names[int(found.rows[0, 0])],
    )
    search.close()


def test_rows_of_shards():
    assert shard_firsts(7, 7) == tuple(range(8))
    for rows, shards in ((203, 4), (29, 3), (1, 1)):
        firsts = shard_firsts(rows, shards)
        sizes = np.diff(firsts)
        assert firsts[-1] == rows
        assert sizes.max() - sizes.min() <= 1
    with pytest.raises(ValueError, match="shards: expected 1 to 3, the number of entities, got 4"):
        shard_firsts(3, 4)


def test_a_killed_build_continues(whole, tmp_path, monkeypatch):
    kb, vectors, _ = whole
    done = []

    def dying(line):
        done.append(line)
        if line == "shard 2 of 3: names indexed":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_shards(kb, tmp_path / "s", 3, vectors=vectors, say=dying)
    with pytest.raises(ShardError, match=r"there is none"):
        ShardedSearch(tmp_path / "s")
    with pytest.raises(ShardError, match=r"holds .*expected a new folder, or the same build's"):
        build_shards(kb, tmp_path / "s", 4, vectors=vectors)
    monkeypatch.setattr(build_module, "build_kb", lambda *_: pytest.fail("built twice"))
    search = ShardedSearch(build_shards(kb, tmp_path / "s", 3, vectors=vectors))
    same_links(search.link(queries(), 5), build_linker(kb).link(queries(), 5))


def test_what_cannot_be_sharded_or_opened(whole, tmp_path):
    kb, vectors, _ = whole
    layout = build_shards(kb, tmp_path / "s", 2)
    with pytest.raises(ShardError, match="these hold names alone"):
        ShardedSearch(layout).search(np.zeros((1, 9)))
    with pytest.raises(TypeError, match="expected a list of texts"):
        ShardedSearch(layout).link("wood")
    other = build_kb(entities(5, seed=8), tmp_path / "other")
    with pytest.raises(ValueError, match="vectors: expected 5, one per entity, got 203"):
        build_shards(other, tmp_path / "t", 2, vectors=vectors)
    edited = remove_entities(other, ["Q3"])
    with pytest.raises(ValueError, match=r"1 rows are empty; expected none \(compact it first\)"):
        build_shards(edited, tmp_path / "t", 2)
    swapped = layout.folder(0).rename(tmp_path / "aside")
    layout.folder(1).rename(layout.folder(0))
    swapped.rename(layout.folder(1))
    with pytest.raises(ShardError, match=r"shard-00000: holds the entities \w+…, expected"):
        ShardedSearch(layout)
    (tmp_path / "s" / "shards.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ShardError, match="not a list of shards"):
        ShardLayout.read(tmp_path / "s")


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray")
    with tempfile.TemporaryDirectory(prefix="r") as folder:  # short: Ray has sockets in it
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=folder, logging_level="ERROR")
        yield ray
        ray.shutdown()


@pytest.mark.filterwarnings("ignore")  # Ray's own: unclosed sockets and deprecations inside it
def test_four_shards_on_ray_and_a_lost_worker(whole, tmp_path, cluster):
    from oven_retrieval.shards.ray_workers import RayWorkers

    kb, vectors, made = whole
    layout = build_shards(kb, tmp_path / "s", 4, vectors=vectors)
    with pytest.raises(ShardError, match=r"4 shards of 1.0 processors each need 4, the cluster has 2"):
        RayWorkers(layout)
    workers = RayWorkers(layout, cpus=0.25, timeout=120)
    search = ShardedSearch(layout, workers)
    expected = build_linker(kb).link(queries(), 5)
    same_links(search.link(queries(), 5), expected)
    asked = np.random.default_rng(4).normal(size=(30, 9)).astype(np.float32)
    nearest = exact_search(asked, ArrayRows(made), 10)
    np.testing.assert_array_equal(search.search(asked, 10).rows, nearest.rows)

    pids = cluster.get([actor.process_id.remote() for actor in workers.actors])
    assert len(set(pids)) == 4
    os.kill(pids[2], signal.SIGKILL)
    same_links(search.link(queries(), 5), expected)
    assert cluster.get(workers.actors[2].process_id.remote()) != pids[2]

    os.kill(cluster.get(workers.actors[1].process_id.remote()), signal.SIGKILL)
    layout.folder(1).rename(tmp_path / "gone")  # the new worker cannot open it either
    with pytest.raises(ShardError, match=r"shard-00001: lost 2 times"):
        search.link(queries(), 5)
    (tmp_path / "gone").rename(layout.folder(1))
    search.close()
