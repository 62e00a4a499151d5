"""Ray: the same files as in this process, whatever is lost on the way. `test_executors` runs this file by itself."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gate_runner.executors import run
from gate_runner.runs import RunRequest
from gate_runner.runs.folder import RunFolder

from ._sleepy import Names, sleepy_request, told


@pytest.fixture
def request_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRequest:
    return sleepy_request(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    import ray as module

    # A short path, whatever TMPDIR is: sockets lie below it.
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp" if Path("/tmp").is_dir() else None)
    module.init(num_cpus=2, include_dashboard=False, _temp_dir=folder, logging_level="ERROR", log_to_driver=False)
    yield module
    module.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.filterwarnings("ignore")  # Ray warns about itself
def test_ray_gives_what_this_process_gives(ray: Any, request_here: RunRequest, tmp_path: Path) -> None:
    names = Names()
    request = replace(request_here, output=tmp_path / "ray").changed(isolate="worker", executor="ray")
    there = run(request, observers=[names])
    assert told(there) == told(run(request_here))
    assert names.said.count("finished 0") == names.said.count("finished 1") == 1
    assert RunFolder(request.output).result_file("micro/cifar100", 1).exists()


@pytest.mark.filterwarnings("ignore")
def test_a_lost_ray_worker_is_a_row_and_the_next_run_goes_on(
    ray: Any, request_here: RunRequest, tmp_path: Path
) -> None:
    Path("lost").write_text("")  # the worker kills the Ray process that started it
    request = replace(request_here, output=tmp_path / "ray").changed(isolate="worker", executor="ray", seeds=(0,))
    (lost,) = run(request)
    assert lost.status == "failed"
    assert lost.reason.startswith("its Ray worker was lost: ")
    Path("lost").unlink()
    assert told(run(replace(request_here, output=request.output).changed(seeds=(0,)))) == told(
        run(request_here.changed(seeds=(0,)))
    )
