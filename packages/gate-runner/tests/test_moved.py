"""Plug-ins of the last release import by names that moved."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from gate_runner.moved import MOVED

PLUGIN = """
from gate_runner.benchmarks.benchmark import Benchmark
from gate_runner.benchmarks.data import Data, Split
import gate_data.data, gate_runner.benchmark
assert Split is gate_data.data.Split
assert Benchmark is gate_runner.benchmark.Benchmark
assert gate_data.data.__spec__.name == "gate_data.data"
"""


def test_a_plug_in_of_the_last_release_runs_and_is_told() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "always::DeprecationWarning", "-c", PLUGIN], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "gate_runner.benchmarks.data is gate_data.data now" in done.stderr


@pytest.mark.parametrize("old", MOVED)
def test_every_old_name_leads_somewhere(old: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match="now, and goes in"):
        module = importlib.import_module(old)
    assert module is importlib.import_module(MOVED[old])


def test_what_never_was_is_missing() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("gate_runner.nothing")
    with pytest.warns(DeprecationWarning, match="now, and goes in"), pytest.raises(ModuleNotFoundError):
        importlib.import_module("gate_runner.benchmarks.originals.nothing")
