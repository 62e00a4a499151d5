"""Shards by id: the same answers as one index over everything, in this process and on a local Ray cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from oven_retrieval import build_kb, build_linker, remove_entities
from oven_retrieval.shards import ShardedSearch, ShardError, ShardLayout, build_shards
from oven_retrieval.shards import build as build_module
from oven_retrieval.shards.layout import shard_firsts
from oven_retrieval.vectors import ArrayRows, exact_search

from ._sharded import entities, made_whole, queries, same_links


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return made_whole(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("shards", [1, 2, 4, 11])
@pytest.mark.parametrize("exact_first", [True, False])
def test_links_equal_those_of_one_index(whole, tmp_path, shards, exact_first):
    kb, _, _ = whole
    search = ShardedSearch(build_shards(kb, tmp_path / "s", shards))
    linker = build_linker(kb, inflections=False, ngrams=False)
    for k in (1, 7, 300):
        same_links(
            search.link(queries(), k, exact_first=exact_first), linker.link(queries(), k, exact_first=exact_first)
        )


def test_vectors_equal_exact_search(whole, tmp_path):
    kb, vectors, made = whole
    layout = build_shards(kb, tmp_path / "s", 4, vectors=vectors)
    search = ShardedSearch(ShardLayout.read(tmp_path / "s"))
    assert layout == search.layout
    rows = np.concatenate([np.random.default_rng(4).normal(size=(30, 9)).astype(np.float32), made[50:51]])
    for k in (1, 10, 210):
        hits, expected = search.search(rows, k), exact_search(rows, ArrayRows(made), k)
        np.testing.assert_array_equal(hits.rows, expected.rows)
        np.testing.assert_allclose(hits.scores, expected.scores, rtol=1e-6, atol=1e-6)  # sums of terms of about 1
    ordered = hits.rows[-1].tolist()
    assert ordered.index(120) == ordered.index(50) + 1
    assert search.records(hits.rows[:2, :3])[int(hits.rows[0, 0])] == (
        kb.ids[int(hits.rows[0, 0])],
        kb.names[int(hits.rows[0, 0])],
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
    same_links(search.link(queries(), 5), build_linker(kb, inflections=False, ngrams=False).link(queries(), 5))


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


def test_on_ray(tmp_path):
    pytest.importorskip("ray")
    from filelock import FileLock  # Ray needs it, too

    # By itself and one at a time: a second cluster in one process may wait for the first one's remains for ever. Ray's
    # workers give way to everything else on the machine, which on a busy one means that they hardly get to run.
    file, path = Path(__file__).with_name("_on_ray.py"), tmp_path / "said.txt"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(file)]
    # Where the machine is slow, Ray's own processes outlive its shutdown for a moment, and Python warns of them.
    command += ["-W", "ignore::pytest.PytestUnraisableExceptionWarning"]
    environment = {**os.environ, "RAY_worker_niceness": "0", "RAY_raylet_start_wait_time_s": "120"}
    with FileLock(Path(tempfile.gettempdir()) / "one-ray-at-a-time.lock", timeout=600), path.open("wb") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, env=environment, timeout=300, check=False)
    assert done.returncode == 0, path.read_text()[-6000:]
    assert "1 passed" in path.read_text()
