"""Runs `triton_cases.py` where Triton is installed; without a GPU, in its interpreter."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

CASES = Path(__file__).with_name("triton_cases.py")


def test_kernels_in_a_process_of_their_own() -> None:
    needed = ["triton"] if torch.cuda.is_available() else ["triton", "numpy"]  # the interpreter computes with numpy
    for name in needed:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    interpreter = {} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}
    command = [sys.executable, "-m", "pytest", str(CASES), "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    finished = subprocess.run(
        command,
        env=os.environ | interpreter,
        cwd=CASES.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert finished.returncode == 0, finished.stdout[-4000:] + finished.stderr[-2000:]
    assert " passed" in finished.stdout
