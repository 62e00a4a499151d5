"""A quick request whose encoder kills a process where a file asks for it, for the tests of executors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gate_runner.benchmarks import resolve
from gate_runner.runs import Result, RunRequest
from gate_runner.runs.observers import Observer
from gate_runner.settings import Settings

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


def sleepy_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRequest:
    """Two seeds of a short training, in a folder of its own that is the current one from here on."""
    name = f"sleepy_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(SLEEPY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    benchmarks = [
        replace(benchmark, training={**benchmark.training, "steps": 20, "validate_every": 10})
        for benchmark in resolve(["cifar100"])
    ]
    return RunRequest(benchmarks, f"{name}:make", tmp_path / "run", Settings(limit=64, seeds=(0, 1)))


def comparable(results: list[Result]) -> list[Result]:
    """Without what differs from one run to the next."""
    return [replace(result, seconds={}, energy={}, memory={}) for result in results]


class Names(Observer):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def started(self, name: str, seed: int) -> None:
        self.messages.append(f"started {seed}")

    def finished(self, result: Result) -> None:
        self.messages.append(f"finished {result.seed}")
