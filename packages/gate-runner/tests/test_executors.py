"""Ray and SLURM: the same files as in this process, whatever is lost on the way."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gate_runner.benchmarks import resolve
from gate_runner.errors import UsageError
from gate_runner.executors import executor_names
from gate_runner.runs import Result, RunRequest, run
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.observers import Observer

SLEEPY = """
import os
import time
from pathlib import Path

from torch import nn


class Sleepy(nn.Module):
    image_size = 16

    def forward(self, images):
        if len(images) > 2 and Path("lost").exists():
            os.kill(int(Path("lost").read_text() or os.getppid()), 9)
            time.sleep(30)
        return nn.functional.adaptive_avg_pool2d(images, 4).flatten(1)


def make():
    return Sleepy()
"""


@pytest.fixture
def request_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRequest:
    name = f"sleepy_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(SLEEPY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    benchmarks = [
        replace(one, training={**one.training, "steps": 20, "validate_every": 10}) for one in resolve(["cifar100"])
    ]
    return RunRequest(benchmarks, f"{name}:make", tmp_path / "run", limit=64, seeds=(0, 1))


def told(results: list[Result]) -> list[Result]:
    return [replace(one, seconds={}, energy={}, memory={}) for one in results]


class Names(Observer):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def started(self, name: str, seed: int) -> None:
        self.said.append(f"started {seed}")

    def finished(self, result: Result) -> None:
        self.said.append(f"finished {result.seed}")


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    module = pytest.importorskip("ray", reason="Ray is not installed")
    place = tempfile.mkdtemp(prefix="r")  # short: sockets lie below it
    module.init(num_cpus=2, include_dashboard=False, _temp_dir=place, logging_level="ERROR", log_to_driver=False)
    yield module
    module.shutdown()
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.filterwarnings("ignore")  # Ray warns about itself
def test_ray_gives_what_this_process_gives(ray: Any, request_here: RunRequest, tmp_path: Path) -> None:
    names = Names()
    request = replace(request_here, output=tmp_path / "ray", isolate="worker", executor="ray")
    there = run(request, observers=[names])
    assert told(there) == told(run(request_here))
    assert names.said.count("finished 0") == names.said.count("finished 1") == 1
    assert RunFolder(request.output).result_file("micro/cifar100", 1).exists()


@pytest.mark.filterwarnings("ignore")
def test_a_lost_ray_worker_is_a_row_and_the_next_run_goes_on(
    ray: Any, request_here: RunRequest, tmp_path: Path
) -> None:
    Path("lost").write_text("")  # the worker kills the Ray process that started it
    request = replace(request_here, output=tmp_path / "ray", isolate="worker", executor="ray", seeds=(0,))
    (lost,) = run(request)
    assert lost.status == "failed"
    assert lost.reason.startswith("its Ray worker was lost: ")
    Path("lost").unlink()
    assert told(run(replace(request_here, output=request.output, seeds=(0,)))) == told(
        run(replace(request_here, seeds=(0,)))
    )


def test_ray_refuses_what_it_does_not_know(request_here: RunRequest) -> None:
    pytest.importorskip("ray")
    request = replace(request_here, isolate="worker", executor="ray", executor_options={"adress": "auto"})
    with pytest.raises(UsageError, match="the ray executor has no option 'adress'; it has: address, cpus"):
        run(request)


@pytest.mark.filterwarnings("ignore")  # submitit warns about what a local job cannot do
def test_slurm_gives_what_this_process_gives(request_here: RunRequest, tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason="submitit is not installed")
    options = {"cluster": "local", "timeout_min": "5"}
    request = replace(
        request_here, output=tmp_path / "jobs", isolate="worker", executor="slurm", executor_options=options, seeds=(0,)
    )
    assert told(run(request)) == told(run(replace(request_here, seeds=(0,))))
    assert run(request)[0].status == "ok"  # it is there: nothing is submitted


@pytest.mark.filterwarnings("ignore")
def test_a_lost_job_is_a_row(request_here: RunRequest, tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason="submitit is not installed")
    Path("lost").write_text("")
    request = replace(
        request_here, output=tmp_path / "jobs", isolate="worker", executor="slurm",
        executor_options={"cluster": "local"}, seeds=(0,), time_limit=60.0,
    )  # fmt: skip
    (lost,) = run(request)
    assert lost.status == "failed"
    assert lost.reason.startswith("its job ")


def test_slurm_says_what_is_missing(request_here: RunRequest) -> None:
    pytest.importorskip("submitit")
    request = replace(request_here, isolate="worker", executor="slurm")
    if shutil.which("srun") is None:
        with pytest.raises(UsageError, match="slurm: "):
            run(request)
    unknown = replace(request, executor_options={"cluster": "local", "partitoin": "gpu"})
    with pytest.raises(UsageError, match="partitoin"):
        run(unknown)


def test_names() -> None:
    assert executor_names()[:3] == ["local", "ray", "slurm"]


def test_interrupted_workers_are_gone(request_here: RunRequest) -> None:
    """Ctrl-C in the process that watches leaves no worker behind."""
    code = (
        "import sys; from dataclasses import replace; from pathlib import Path\n"
        "from gate_runner.benchmarks import resolve; from gate_runner.runs import RunRequest, run\n"
        "from gate_runner.runs.observers import Observer\n"
        "class Say(Observer):\n"
        "    def started(self, name, seed): print('started', flush=True)\n"
        "benchmarks = [replace(one, training={**one.training, 'steps': 10**6}) for one in resolve(['cifar100'])]\n"
        "run(RunRequest(benchmarks, sys.argv[1], Path('long'), isolate='worker'), Say())\n"
    )
    import sys

    assert isinstance(request_here.encoder, str)
    process = subprocess.Popen(
        [sys.executable, "-c", code, request_here.encoder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    workers = _children(process.pid)
    assert workers
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in said
    assert not [pid for pid in workers if Path(f"/proc/{pid}/cmdline").exists() and _command(pid)]


def _children(pid: int) -> list[int]:
    if not Path(f"/proc/{pid}/task").is_dir():
        pytest.skip("no /proc on this system")
    found = [(task / "children").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return [int(word) for text in found for word in text.split()]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
