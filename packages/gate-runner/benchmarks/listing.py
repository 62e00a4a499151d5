"""How long an ImageNet-sized tree takes to be listed and checked.

Makes a folder of classes with 1,281,167 empty training files and 50,000 to score (``--scale 0.1`` a tenth of them),
and measures in fresh processes: listing (all samples, with their classes), and the whole of
``check-data``, which also looks for overlaps, hashes 2,000 files of each split and decodes 64. The operating system
keeps directories that were just written in memory; the first listing from a cold disk takes longer.

    python packages/gate-runner/benchmarks/listing.py [--folder FOLDER] [--scale 1] [--output listing.json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

_CLASSES, _TRAIN, _VAL = 1000, 1_281_167, 50_000
_LIST = """
import sys, time
from pathlib import Path
from gate_runner.benchmarks import BENCHMARKS
originals = BENCHMARKS["imagenet1k"].originals
start, cpu = time.perf_counter(), time.process_time()
found = originals.parts(originals.find(Path(sys.argv[1])))
print(time.perf_counter() - start, time.process_time() - cpu, len(found.train), len(found.test))
"""
_CHECK = """
import sys, time
from pathlib import Path
from gate_runner.benchmarks import BENCHMARKS
from gate_data.checking import check_data
start, cpu = time.perf_counter(), time.process_time()
[found] = check_data([BENCHMARKS["imagenet1k"]], Path(sys.argv[1]))
print(time.perf_counter() - start, time.process_time() - cpu, *found.counts)
"""


def write_tree(root: Path, scale: float) -> tuple[int, int]:
    """Write the tree; the counts."""
    counts = []
    for split, whole in (("train", _TRAIN), ("val", _VAL)):
        total = round(whole * scale)
        for number in range(_CLASSES):
            folder = root / "imagenet1k" / split / f"n{number:08d}"
            folder.mkdir(parents=True)
            for index in range(number * total // _CLASSES, (number + 1) * total // _CLASSES):
                os.close(os.open(folder / f"n{number:08d}_{index}.JPEG", os.O_CREAT | os.O_WRONLY))
        counts.append(total)
    return counts[0], counts[1]


def measured(code: str, root: Path) -> dict[str, Any]:
    """Seconds without imports, peak memory in GB, and the counts, of one fresh process."""
    load = os.getloadavg()[0]
    with subprocess.Popen([sys.executable, "-c", code, str(root)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        parts = process.stdout.read().split()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
    if status:
        raise SystemExit("the process failed")
    return {
        "seconds": round(float(parts[0]), 2),
        "cpu_s": round(float(parts[1]), 2),
        "peak_gb": round(usage.ru_maxrss / 1e6, 3),
        "counts": [int(part) for part in parts[2:]],
        "load": round(load, 1),
    }


def main() -> None:
    """Print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="Where the files are made and removed again; a temporary folder.")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(dir=args.folder))
    try:
        free = os.statvfs(root).f_favail
        if free < 1.1 * args.scale * (_TRAIN + _VAL):
            raise SystemExit(f"{root} has {free:,} inodes left, too few")
        start = time.perf_counter()
        counts = write_tree(root, args.scale)
        print(f"{sum(counts):,} files made in {time.perf_counter() - start:.0f} s", flush=True)
        collected: dict[str, Any] = {
            "machine": {"cpu": platform.machine(), "cores": os.cpu_count()},
            "versions": {"gate-runner": version("gate-runner"), "python": platform.python_version()},
        }
        for what, code in (("listing", _LIST), ("check-data", _CHECK)):
            measurement = collected[what] = measured(code, root)
            if tuple(measurement["counts"]) != counts:
                raise SystemExit(f"{what}: {measurement['counts']} samples, expected {counts}")
            cost = f"{measurement['seconds']} s ({measurement['cpu_s']} s of processor), {measurement['peak_gb']} GB"
            print(f"{what}: {cost}, load {measurement['load']}", flush=True)
    finally:
        shutil.rmtree(root)
    if args.output:
        args.output.write_text(json.dumps(collected, indent=2) + "\n")


if __name__ == "__main__":
    main()
