"""Shards as Ray actors, one of which is lost. `test_shards` runs this file by itself."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import numpy as np
import pytest

from oven_retrieval import build_linker
from oven_retrieval.shards import ShardedSearch, ShardError, build_shards
from oven_retrieval.shards.ray_workers import RayWorkers
from oven_retrieval.vectors import ArrayRows, exact_search

from ._sharded import made_whole, queries, same_links

psutil = pytest.importorskip("psutil")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return made_whole(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def cluster():
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # as `gate-runner oven search --ray local` does
    import ray

    # A short path, whatever TMPDIR is: Ray has sockets in it.
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp" if Path("/tmp").is_dir() else None) as folder:
        ray.init(
            num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=folder, logging_level="ERROR",
            _node_ip_address="127.0.0.1",
        )  # fmt: skip
        yield ray
        ray.shutdown()


@pytest.mark.filterwarnings("ignore")  # Ray's own: unclosed sockets and deprecations inside it
def test_four_shards_on_ray_and_a_lost_worker(whole, tmp_path, cluster):
    kb, vectors, made = whole
    layout = build_shards(kb, tmp_path / "s", 4, vectors=vectors)
    with pytest.raises(ShardError, match=r"4 shards of 1.0 processors each need 4, the cluster has 2"):
        RayWorkers(layout)
    workers = RayWorkers(layout, cpus=0.25, timeout=120)
    search = ShardedSearch(layout, workers)
    expected = build_linker(kb, inflections=False, ngrams=False).link(queries(), 5)
    same_links(search.link(queries(), 5), expected)
    values = np.random.default_rng(4).normal(size=(30, 9)).astype(np.float32)
    nearest = exact_search(values, ArrayRows(made), 10)
    np.testing.assert_array_equal(search.search(values, 10).rows, nearest.rows)

    tree = [psutil.Process(), *psutil.Process().children(recursive=True)]
    listening = {
        (process.name(), socket.laddr.ip)
        for process in tree
        for socket in process.net_connections(kind="inet")
        if socket.status == psutil.CONN_LISTEN
    }
    assert len(listening) >= 3
    assert {address.removeprefix("::ffff:") for _, address in listening} == {"127.0.0.1"}

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
