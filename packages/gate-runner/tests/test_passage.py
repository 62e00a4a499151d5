"""How many of the runner's files a run passes through: what a reader of one run has to open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

COUNT = """
import sys, threading
from pathlib import Path
import gate_runner, gate_runner.api
place = Path(gate_runner.__file__).parent
seen = set()

def noted(frame, event, argument):  # told of calls of Python's functions alone, as it asks for no lines
    if frame.f_code.co_filename.startswith(str(place)):
        seen.add(frame.f_code.co_filename)

gate_runner.run("digits", output=sys.argv[1] + "/imports", limit=20)
threading.settrace(noted)
sys.settrace(noted)
gate_runner.run("digits", output=sys.argv[1] + "/run", limit=20)
sys.settrace(None)
threading.settrace(None)
print(len(seen))
"""
MOST = 35
"""Of two hundred and thirty: a file that is new to a run takes the place of another."""


def test_a_run_passes_through_few_files(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COUNT, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 20 < int(done.stdout.split()[-1]) <= MOST
