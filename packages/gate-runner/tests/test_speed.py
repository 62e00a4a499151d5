"""What a run says of its speed, in what it computes, and how it behaves beside other work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import gate_runner
from gate_data.pictures import readers
from gate_runner.benchmarks import BENCHMARKS
from gate_runner.cli import app
from gate_runner.executors import threads
from gate_runner.executors.executor import EncoderInfo
from gate_runner.executors.local import LocalExecutor
from gate_runner.executors.threads import thread_settings, workers_for
from gate_runner.executors.worker_process import WorkerProcess
from gate_runner.runs import RunRequest
from gate_runner.settings import Settings
from vision_features.encoders import load_encoder
from vision_features.encoders.encoder import Encoder
from vision_features.encoders.probe import AGREEMENT, agrees
from vision_features.features import FeatureCache


def test_sixteen_bits_are_taken_where_they_agree_and_have_rows_of_their_own(tmp_path: Path) -> None:
    encoder = load_encoder("micro-clip")
    images = torch.randint(0, 256, (8, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    assert agrees(encoder, images)
    whole = encoder.encode_image(images)
    folder = FeatureCache.of(encoder, encoder.fingerprint(), root=tmp_path).folder
    encoder.precision = "bfloat16"
    half = encoder.encode_image(images)
    assert half.dtype == torch.float32
    assert not torch.equal(half, whole)
    assert float((half - whole).norm() / whole.norm()) <= AGREEMENT
    assert FeatureCache.of(encoder, encoder.fingerprint(), root=tmp_path).folder != folder


def test_sixteen_bits_are_left_where_they_differ() -> None:
    weight = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    weight[1, 0] += 1 / 1024  # less than bfloat16 tells apart

    def image(images: torch.Tensor) -> torch.Tensor:
        first, other = (images.mean(dim=(2, 3)) @ weight.T).float().unbind(1)
        return (first - other)[:, None]

    encoder = Encoder("difference", 8, image, mean=(0, 0, 0), std=(1, 1, 1))
    assert not agrees(encoder, torch.full((4, 3, 8, 8), 200, dtype=torch.uint8))
    assert encoder.precision == "float32"


def test_a_result_says_how_fast_it_was_and_in_what_it_computed(tmp_path: Path, cold_cache: Any) -> None:
    settings: dict[str, Any] = {"encoder": "micro-dense", "limit": 40, "show": False, "device": "cpu"}
    (run,) = gate_runner.run("digits", output=tmp_path / "whole", **settings)
    assert run.memory["images_per_second"] > 0
    assert 0 < run.seconds["encoder"] <= run.seconds["encode"]
    assert run.seconds["one_image"] > 0
    assert run.memory["threads"] == torch.get_num_threads()
    assert "precision" not in run.training
    (half,) = gate_runner.run("digits", output=tmp_path / "half", precision="bfloat16", **settings)
    assert half.training["precision"] == "bfloat16"
    assert half.settings["precision"] == "bfloat16"
    assert half.memory["encoded"] == run.memory["encoded"]


def test_threads_sleep_while_they_wait_and_are_no_more_than_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(os, "getloadavg", lambda: (0.2, 0.0, 0.0))
    monkeypatch.setattr(threads, "_running", lambda: 90)
    assert "OMP_NUM_THREADS" not in thread_settings()
    assert thread_settings()["OMP_WAIT_POLICY"] == "PASSIVE"
    assert thread_settings(4)["OMP_NUM_THREADS"] == "2"
    monkeypatch.setattr(os, "getloadavg", lambda: (6.1, 0.0, 0.0))
    assert thread_settings()["OMP_NUM_THREADS"] == "2"
    monkeypatch.setattr(os, "getloadavg", lambda: (90.0, 0.0, 0.0))
    assert thread_settings()["OMP_NUM_THREADS"] == "1"
    monkeypatch.setattr(threads, "_running", lambda: 0)  # what made the load has ended
    assert "OMP_NUM_THREADS" not in thread_settings()
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert "OMP_NUM_THREADS" not in thread_settings()


@pytest.mark.parametrize(("gpus", "visible", "threads_each"), [(4, None, "2"), (4, "0,2", "4"), (0, None, None)])
def test_workers_of_several_gpus_share_the_cores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpus: int, visible: str | None, threads_each: str | None
) -> None:
    """Each took all cores, for computing and for reading."""
    for name in ("OMP_NUM_THREADS", "GATE_DATA_READERS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    for number in range(gpus):
        (tmp_path / f"nvidia{number}").touch()
    (tmp_path / "nvidiactl").touch()
    monkeypatch.setattr(threads, "_DEVICES", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(WorkerProcess, "open", lambda _: EncoderInfo({}, {"hardware": {"gpus": ["a"] * len(shown)}}))
    shown = range(gpus) if visible is None else visible.split(",")
    executor = LocalExecutor(RunRequest([BENCHMARKS["digits"]], "micro-clip", tmp_path / "run", Settings(workers=1)))
    executor.open()
    assert len(executor.slots) == max(1, len(shown))
    for name in ("OMP_NUM_THREADS", "GATE_DATA_READERS"):
        assert {slot.environment.get(name) for slot in executor.slots} == {threads_each}
    monkeypatch.setenv("GATE_DATA_READERS", "2")
    assert readers() == 2


def test_several_benchmarks_run_at_the_same_time_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(os, "getloadavg", lambda: (0.2, 0.0, 0.0))
    monkeypatch.setattr(Path, "glob", lambda folder, pattern: iter(()))  # neither GPUs nor counters of energy
    apart = Settings(isolate="worker")
    assert workers_for(apart, 3) == 1
    assert 1 <= workers_for(apart, 8) <= 4
    assert workers_for(apart.changed(workers=7), 8) == 7
    assert workers_for(Settings(), 8) == workers_for(apart.changed(tune="full"), 8) == 1
    monkeypatch.setattr(os, "getloadavg", lambda: (90.0, 0.0, 0.0))
    monkeypatch.setattr(threads, "_running", lambda: 90)
    assert workers_for(apart, 8) == 1


def test_a_plan_says_what_a_run_costs(tmp_path: Path) -> None:
    words = [
        "plan",
        "digits",
        "--limit",
        "40",
        "--isolate",
        "none",
        "--output",
        str(tmp_path),
        "--encoder",
        "micro-clip",
    ]
    record = json.loads(CliRunner().invoke(app, [*words, "--price", "36", "--json"]).stdout)
    assert record["dollars"] == pytest.approx(record["seconds"] / 100)
    refused = CliRunner().invoke(app, [*words, "--price", "-1"])
    assert "--price is in dollars an hour, at least 0, not -1.0" in str(refused.exception)


def test_who_only_lists_files_loads_no_torch(tmp_path: Path) -> None:
    """The process that watches over workers listed a folder of one's own with torch, which the worker loads again."""
    from PIL import Image

    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        for number in range(12):
            Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / label / f"{number}.png")
    from gate_data.own import guess, write_benchmark

    file = tmp_path / "benchmark.toml"
    write_benchmark(guess(tmp_path).values, file)
    code = (
        "import sys; from gate_runner.runs.request import make_request, eval_units_of; "
        f"eval_units_of(make_request({str(file)!r}, 'micro-clip', output={str(tmp_path / 'runs' / 'run')!r})); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
