"""How many of the runner's files a first run passes through: what a reader of one run has to open."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
"""
MOST = 40
"""A first run by the command line, in one process, from an empty cache; a file that is new takes another's place."""


def test_a_first_run_passes_through_few_files(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COUNT, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GATE_RUNNER_CACHE": str(tmp_path / "cache")},
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "results" / "digits.seed0.json").is_file()
    assert list((tmp_path / "cache").rglob("*.npy"))  # it encoded
    count = int(done.stdout.split()[-1])
    files = len(list(Path(gate_runner.__file__).parent.rglob("*.py")))
    print(f"{count} of {files} files")
    assert 25 < count <= MOST < files / 2
