"""The benchmark that waits for a GPU: its steps run on the CPU, so that whoever has one meets no other mistake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "on_a_gpu.py"


@pytest.mark.again
@pytest.mark.skipif(not SCRIPT.is_file(), reason="the benchmarks are in the repository alone")
def test_all_steps_run_on_the_cpu_and_nothing_is_written() -> None:
    before = sorted(SCRIPT.parent.glob("results/on_a_gpu*"))
    done = subprocess.run([sys.executable, SCRIPT, "--smoke"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("smoke run on the CPU: all steps ran")
    assert [line.split()[0] for line in done.stdout.splitlines()[:-1]] == ["digits", "micro/acdc", "micro/mini"]
    assert sorted(SCRIPT.parent.glob("results/on_a_gpu*")) == before
