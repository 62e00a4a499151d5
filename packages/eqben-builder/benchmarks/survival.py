"""A build that is killed at random points must end with the same bytes, and so must one with more workers.

    python packages/eqben-builder/benchmarks/survival.py [--engine raster|mitsuba] [--pairs 34] [--kills 10]
        [--output FILE]

The reference is a build in one process that nobody disturbs. A second one runs in two worker processes and is killed
(SIGKILL, the parent alone: its workers must end by themselves) `--kills` times after random numbers of jobs, and
continued each time. Both hashes, and all files, must be equal. No figure is written when they are not.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reporting import report

from eqben_builder.building import build, read_manifest
from eqben_builder.kubric import KubricBuilder

_CHILD = """
import sys
from eqben_builder.building import build
from eqben_builder.kubric import KubricBuilder
if __name__ == "__main__":
    build(KubricBuilder(engine=sys.argv[2], size=int(sys.argv[4])), sys.argv[1], pairs=int(sys.argv[3]), workers=2)
"""


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def running(pid: int) -> bool:
    path = Path(f"/proc/{pid}/stat")
    return path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="raster", choices=("raster", "mitsuba"))
    parser.add_argument("--pairs", type=int, default=34, help="of each aspect")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    chosen = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        script = root / "child.py"
        script.write_text(_CHILD)
        start = time.process_time()
        built = build(KubricBuilder(engine=options.engine, size=options.size), root / "whole", pairs=options.pairs)
        seconds = time.process_time() - start
        target = root / "killed"
        command = [sys.executable, str(script), str(target), options.engine, str(options.pairs), str(options.size)]
        total = built["pairs"] + sum(built["dropped"].values())
        goals = sorted(chosen.sample(range(1, total - 1), options.kills))
        left_over = 0
        for goal in goals:
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            journal = target / "journal.jsonl"
            while process.poll() is None:
                if journal.exists() and journal.read_bytes().count(b"\n") >= goal:
                    break
                time.sleep(0.0005)
            if process.poll() is not None:
                sys.exit(f"the build ended before job {goal}: nothing was killed")
            workers = children(process.pid)
            time.sleep(chosen.random() * 0.02)
            process.send_signal(signal.SIGKILL)
            process.wait()
            until = time.monotonic() + 10
            while any(map(running, workers)) and time.monotonic() < until:
                time.sleep(0.05)
            left_over += sum(map(running, workers))
        again = subprocess.run(command, check=False)
        manifest = read_manifest(target)
        if (
            again.returncode
            or manifest is None
            or manifest["hash"] != built["hash"]
            or tree(target) != tree(root / "whole")
        ):
            sys.exit("FAILED: the killed build is not the undisturbed one")
        if left_over:
            sys.exit(f"FAILED: {left_over} worker processes outlived their parent")
    result = {
        "engine": options.engine,
        "pairs": built["pairs"],
        "size": options.size,
        "kills": options.kills,
        "killed_after_jobs": goals,
        "workers": "1 against 2",
        "equal": True,
        "undisturbed_cpu_seconds": round(seconds, 2),
        "hash": built["hash"],
        "versions": built["versions"],
    }
    report(result, options.output)


if __name__ == "__main__":
    main()
