"""The same result from this process, from several and from Ray."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from eevee import Constraints, EeveeError, MlpScorer, RidgeScorer, Space, open_map
from eevee.searching.evaluation import Evaluator
from eevee.searching.search import search
from eevee.tables.standard import standardise

from ._tables import made_up

TABLE = made_up(models=12, benchmarks=10, per_benchmark=3)
SCORER = MlpScorer(epochs=5, hidden=16, splits=2, held_out=0.2)


def found(spec, scorer=SCORER):
    with open_map(spec) as spread:
        return found_with(spread, scorer)


def found_with(spread, scorer=SCORER):
    evaluate = Evaluator(scorer, standardise(TABLE), map_function=spread, chunk=5)
    return search("greedy-swap", evaluate, Space(TABLE, Constraints(k=2)), seed=0)


@pytest.mark.long
def test_processes():
    assert found("processes:2", RidgeScorer()).best == found("serial", RidgeScorer()).best


def test_on_ray(tmp_path):
    pytest.importorskip("ray")
    from filelock import FileLock  # Ray needs it, too

    # By itself and one at a time: a second cluster in one process may wait for the first one's remains for ever. Ray's
    # workers give way to everything else on the machine, which on a busy one means that they hardly get to run.
    file, said = Path(__file__).with_name("_on_ray.py"), tmp_path / "said.txt"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(file)]
    environment = {**os.environ, "RAY_worker_niceness": "0", "RAY_raylet_start_wait_time_s": "200"}
    with FileLock(Path(tempfile.gettempdir()) / "one-ray-at-a-time.lock", timeout=600), said.open("wb") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, env=environment, timeout=500, check=False)
    if "The current node timed out during startup" in said.read_text():
        pytest.skip("Ray's own processes did not come up within 200 s on this machine")
    assert done.returncode == 0, said.read_text()[-6000:]
    assert "1 passed" in said.read_text()


def test_ray_that_would_listen_to_all_is_not_started(monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "192.0.2.1")
    with pytest.raises(EeveeError, match="would listen on every interface"), open_map("ray:1"):
        pass
    assert not ray.is_initialized()
