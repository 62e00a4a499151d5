"""Mutated pickles against the interpreter: none may crash it, hang it or take much memory.

python benchmarks/fuzz_pickles.py --count 100000
"""

from __future__ import annotations

import argparse
import io
import json
import pickle
import platform
import random
import resource
import time
from pathlib import Path

import joblib
import numpy as np

from gate_runner.errors import DataError
from wary_files import pickles

RESULT = Path(__file__).parent / "results" / "fuzz_pickles.json"


def originals() -> list[bytes]:
    """One value as each protocol writes it, and as joblib does."""
    values = {
        "data": np.arange(96, dtype=np.uint8).reshape(2, 48),
        "fine_labels": list(range(20)),
        "filenames": [f"{i}.png" for i in range(5)],
        "other": {"big": np.arange(3, dtype=">i4"), "one": np.float32(1), "tuple": (1, "a", None), "bytes": b"\xff"},
    }
    joined = io.BytesIO()
    joblib.dump(values, joined)
    return [*(pickle.dumps(values, protocol) for protocol in range(6)), joined.getvalue()]


def mutated(rng: random.Random, seeds: list[bytes]) -> bytes:
    raw = bytearray(rng.choice(seeds))
    for _ in range(rng.randint(1, 6)):
        position = rng.randrange(len(raw) + 1)
        match rng.randrange(4):
            case 0 if position < len(raw):
                raw[position] = rng.randrange(256)
            case 1:
                raw[position:position] = rng.randbytes(rng.randint(1, 8))
            case 2:
                del raw[position : position + rng.randint(1, 20)]
            case _:
                other = rng.choice(seeds)
                start = rng.randrange(len(other))
                raw[position:position] = other[start : start + rng.randint(1, 40)]
        raw = raw or bytearray(b".")
    return bytes(raw)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng, seeds = random.Random(arguments.seed), originals()
    for raw in seeds:
        assert np.array_equal(pickles.load(raw, "a")["data"], joblib.load(io.BytesIO(raw))["data"])
    read, slowest, start = 0, 0.0, time.process_time()
    for number in range(arguments.count):
        raw = mutated(rng, seeds)
        begun = time.process_time()
        try:
            pickles.load(raw, f"mutant {number}")
            read += 1
        except DataError:
            pass
        slowest = max(slowest, time.process_time() - begun)
    result = {
        "count": arguments.count,
        "seed": arguments.seed,
        "read": read,
        "refused": arguments.count - read,
        "other_errors": 0,
        "slowest_seconds": round(slowest, 4),
        "seconds": round(time.process_time() - start, 1),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
