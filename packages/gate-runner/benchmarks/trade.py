"""What `trade` of two encoders costs beside the two plain runs: python benchmarks/trade.py (3 minutes).

Each command is a process of its own with caches of its own, on stand-ins of three kinds; then `trade` again, which
reads what is there. Wall time; writes results/trade.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NAMES = ("digits", "micro/flickr30k", "micro/winoground", "micro/clevr")
ENCODERS = ("micro-clip/random", "micro-clip")
COMMON = ("--device", "cpu", "--limit", "600", "--shots", "0")


def seconds(folder: Path, *words: str) -> float:
    """Wall time of a command in a folder, whose caches are below it."""
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, "GATE_RUNNER_CACHE": str(folder / "cache")}
    start = time.perf_counter()
    program = "from gate_runner.cli import main; main()"
    subprocess.run([sys.executable, "-c", program, *words], cwd=folder, env=environment, check=True)
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        plain = [
            seconds(root / f"plain{number}", "run", *NAMES, "--encoder", encoder, "--output", "run", *COMMON)
            for number, encoder in enumerate(ENCODERS)
        ]
        words = ("trade", *ENCODERS, *NAMES, *COMMON)
        both = seconds(root / "both", *words)
        again = seconds(root / "both", *words)
    row = {"plain": plain, "trade": both, "ratio": both / sum(plain), "again": again, "benchmarks": NAMES}
    path = Path(__file__).parent / "results" / "trade.json"
    path.write_text(json.dumps(row, indent=1) + "\n")
    print(json.dumps(row))


if __name__ == "__main__":
    main()
