"""Milliseconds until one entity more is answered, without a build: `extend_linker`, a million names before.

Rule, written before the first run: at most 50 ms of CPU time, by the median of 30.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

from oven_retrieval import Entity, KnowledgeBase, build_linker, extend_linker


def names(count: int) -> list[str]:
    """Made-up names of two to four words of 200,000, the frequent ones far more often."""
    generator = np.random.default_rng(0)
    ranks = np.minimum(generator.zipf(1.25, size=4 * count), 200_000)
    sizes = generator.integers(2, 5, size=count)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(letters[i] for i in generator.integers(0, 26, generator.integers(3, 9))) for _ in range(200_001)]
    ends = np.cumsum(sizes)
    return [
        " ".join(words[rank] for rank in ranks[end - size : end])
        for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", type=int, default=1_000_000)
    count = parser.parse_args().names
    start = time.process_time()
    linker = build_linker(KnowledgeBase.from_names(names(count)))
    built = time.process_time() - start
    first: list[float] = []
    seconds: dict[str, list[float]] = {"extended": [], "and answered": []}
    for number in range(31):
        entity = Entity(f"Q{number}", f"Quetzaltenango {number}", aliases=("Xelajú",))
        start = time.process_time()
        more = extend_linker(linker, [entity])
        after = time.process_time()
        links = more.link([f"quetzaltenango {number}", "the quetzaltenangos of Xelaju"])
        end = time.process_time()
        assert links.ids() == [[entity.id], [entity.id]]
        if number:
            seconds["extended"].append(after - start)
            seconds["and answered"].append(end - start)
        else:
            first = [after - start, end - start]
    result = {
        "machine": platform.processor() or platform.machine(),
        "load": round(os.getloadavg()[0], 1),
        "versions": {name: version(name) for name in ("oven-retrieval", "numpy", "numba")},
        "names": count,
        "built_seconds": round(built, 1),
        "first_ms": [round(1e3 * value, 1) for value in first],
        **{f"{name}_ms": round(1e3 * statistics.median(values), 1) for name, values in seconds.items()},
    }
    print(json.dumps(result, indent=1))
    path = Path(__file__).parent / "results" / f"extending_{count}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
