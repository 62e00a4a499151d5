"""What `gate-runner trade` of two encoders takes beside the two plain runs, and once more from what is there.

Each in a fresh process, alternating: two zero-shot runs of ``micro/icinw micro/compositional`` from empty feature
caches, then `trade` of the same encoders, from an empty cache too, then the same `trade` again. Figures are medians.

    python packages/gate-runner/benchmarks/trading.py [--repeats 3] [--encoders micro-clip micro-clip/random]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

COMMAND = [sys.executable, "-W", "ignore", "-c", "from gate_runner.cli import main; main()"]
NAMES = ["micro/icinw", "micro/compositional"]
ZERO_SHOT = ["micro/icinw@0-shot.frozen.language-2p.none", "micro/compositional"]
"""What `trade` makes of them, unasked."""
TARGETS = {"ratio": 1.2, "again_seconds": 10.0}
"""At most: seconds over those of both plain runs, and seconds once more."""


def timed(words: list[str], cache: Path) -> tuple[float, float]:
    """Seconds by the clock and of the processor of one command; errors end the benchmark."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [*COMMAND, *words], env={**os.environ, "GATE_RUNNER_CACHE": str(cache)}, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"gate-runner {' '.join(words)} failed")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime


def measured(encoders: list[str], root: Path) -> dict[str, float]:
    """Both plain runs, the trade, and the trade again."""
    figures = {"plain_seconds": 0.0, "plain_cpu_seconds": 0.0}
    for number, encoder in enumerate(encoders):
        words = ["run", *ZERO_SHOT, "--encoder", encoder, "--output", str(root / f"run-{number}")]
        clock, cpu = timed(words, root / f"cache-{number}")
        figures["plain_seconds"] += clock
        figures["plain_cpu_seconds"] += cpu
    words = ["trade", *encoders, *NAMES]
    words += ["--runs", str(root / "runs"), "--page", str(root / "trade.html")]
    for name in ("trade", "again"):
        figures[f"{name}_seconds"], figures[f"{name}_cpu_seconds"] = timed(words, root / "cache")
    return {**figures, "ratio": figures["trade_seconds"] / figures["plain_seconds"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoders", nargs=2, default=["micro-clip", "micro-clip/random"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "trading.json")
    options = parser.parse_args()
    rows = []
    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measured(options.encoders, Path(folder)))
        print(json.dumps(rows[-1]), flush=True)
    medians = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    report = {
        "encoders": options.encoders,
        "names": NAMES,
        "medians": medians,
        "targets": TARGETS,
        "rows": rows,
        "machine": {"system": platform.platform(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
        "versions": {name: version(name) for name in ("torch", "gate-runner")},
    }
    options.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"{medians['ratio']:.2f} times both plain runs (at most {TARGETS['ratio']})")
    print(f"{medians['again_seconds']:.1f} s once more (at most {TARGETS['again_seconds']:.0f})")


if __name__ == "__main__":
    main()
