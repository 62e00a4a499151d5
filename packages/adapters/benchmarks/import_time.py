"""Seconds to import vision_adapters and all its modules, against torch and scikit-learn alone, in fresh processes.

`classifier` is left out: it is scikit-learn's own estimator, and imports that.

First checks that importing the modules loads no optional library; alternates the two; writes results/import_time.json.
"""

from __future__ import annotations

import argparse
import json
import pkgutil
import platform
import statistics
import subprocess
import sys
from pathlib import Path

import vision_adapters

MODULES = [module.name for module in pkgutil.iter_modules(vision_adapters.__path__) if module.name != "classifier"]
OURS = "import " + ", ".join(f"vision_adapters.{name}" for name in MODULES)
ALONE = "import torch, sklearn.linear_model, sklearn.metrics"
OPTIONAL = ("peft", "transformers", "PIL", "matplotlib", "pandas")
TIMED = "import time\nstart = time.{clock}()\n{code}\nprint(time.{clock}() - start)"
TARGET = 1.10


def seconds(code: str, clock: str) -> float:
    timed = TIMED.format(clock=clock, code=code)
    done = subprocess.run([sys.executable, "-c", timed], check=True, capture_output=True, text=True, timeout=300)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--clock", choices=("process_time", "perf_counter"), default="process_time")
    arguments = parser.parse_args()
    check = f"import sys\n{OURS}\nprint(*(name for name in {OPTIONAL!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True, timeout=300)
    if done.stdout.strip():
        raise SystemExit(f"optional libraries are loaded, no time is reported: {done.stdout.strip()}")
    pairs = [(seconds(OURS, arguments.clock), seconds(ALONE, arguments.clock)) for _ in range(arguments.repeats)]
    ours, alone = (statistics.median(column) for column in zip(*pairs, strict=True))
    result = {
        "ours": ours, "torch_and_sklearn": alone, "ratio": ours / alone, "target": TARGET,
        "met": ours / alone <= TARGET, "clock": arguments.clock, "repeats": arguments.repeats, "pairs": pairs,
        "machine": platform.processor() or platform.machine(), "python": platform.python_version(),
    }  # fmt: skip
    print(json.dumps({key: value for key, value in result.items() if key != "pairs"}, indent=1))
    (Path(__file__).parent / "results" / "import_time.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
