"""How many of the runner's files a first run passes through: what a reader of one run has to open."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gate_runner

COUNT = """
import sys, threading
import torch  # its own functions, which are not counted, take longer when traced
from pathlib import Path
import gate_runner
place = str(Path(gate_runner.__file__).parent)
files = set()

def noted(frame, event, argument):  # called for Python's functions alone, as it asks for no lines
    if frame.f_code.co_name != "<module>":
        files.add(frame.f_code.co_filename)

threading.settrace(noted)
sys.settrace(noted)
from gate_runner.cli import main
try:
    main(["run", "digits", "--limit", "20", "--isolate", "none", "--output", sys.argv[1]])
except SystemExit as ended:
    assert ended.code in (0, None), ended.code
sys.settrace(None)
threading.settrace(None)
print(len([file for file in files if file.startswith(place)]))
for name in sys.argv[2:]:
    __import__(f"gate_runner.tasks.{name}")
print("torch" in sys.modules, "scipy.stats" in sys.modules)
"""
HEADS = ("classification", "few_shot", "relational", "regression", "training", "video", "zero_shot")
MOST = 40
"""A first run by the command line, in one process, from an empty cache; a file that is new takes another's place."""


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A folder with the run and its cache, and the last words of the process: files, torch, scipy.stats."""
    folder = tmp_path_factory.mktemp("first")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COUNT, str(folder / "run"), *HEADS],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GATE_RUNNER_CACHE": str(folder / "cache")},
    )
    assert done.returncode == 0, done.stderr
    return folder, done.stdout.split()[-3:]


def test_heads_of_classes_load_no_distributions(first_run: tuple[Path, list[str]]) -> None:
    """The quantile of an interval is one function of scipy.special; scipy.stats costs each worker 0.6 CPU seconds."""
    assert first_run[1][1:] == ["True", "False"]


def test_a_first_run_passes_through_few_files(first_run: tuple[Path, list[str]]) -> None:
    folder, words = first_run
    assert (folder / "run" / "results" / "digits.seed0.json").is_file()
    assert list((folder / "cache").rglob("*.npy"))  # it encoded
    count = int(words[0])
    files = len(list(Path(gate_runner.__file__).parent.rglob("*.py")))
    print(f"{count} of {files} files")
    assert 25 < count <= MOST < files / 2
