"""Adding and removing entities beside building again: the same answers, and what each costs.

    python benchmarks/edits.py --names 100000
    python benchmarks/edits.py --names 1000000

Made-up names as in names.py. A thousand entities are added and a thousand removed; then the index follows. Before any
time is printed, its answers and scores are compared to the bit with those of a build from scratch.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
from names import make_names, make_queries

from oven_retrieval import Entity, add_entities, build_kb, build_name_index, remove_entities, update_name_index

RESULTS = Path(__file__).parent / "results"
EDITED = 1000


def timed(call: Callable[[], object]) -> tuple[float, object]:
    """Processor seconds of a call, and what it returned."""
    start = time.process_time()
    value = call()
    return time.process_time() - start, value


def answers(linker, queries: list[str]) -> tuple[list[list[str]], np.ndarray]:
    """Ids of the five best entities by BM25, and their scores."""
    links = linker.link(queries, 5, exact_first=False)
    return [[linker.kb.ids[row] if row >= 0 else "" for row in rows] for rows in links.rows], links.scores


def one_round(folder: Path, old: list[Entity], new: list[Entity], removed: set[str]):
    """Build, add, remove, and let the index follow; processor seconds of each, and the linker at the end."""
    seconds = {}
    seconds["build entities"], kb = timed(lambda: build_kb(old, folder / "kb"))
    seconds["build index"], _ = timed(lambda: build_name_index(kb, folder / "names"))
    seconds["add 1,000 entities"], more = timed(lambda: add_entities(kb, new))
    seconds["remove 1,000 entities"], fewer = timed(lambda: remove_entities(more, sorted(removed)))
    seconds["index follows"], linker = timed(lambda: update_name_index(folder / "names", fewer))
    return seconds, linker


def main() -> int:
    """Measure, compare, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    names = make_names(options.names + EDITED, rng)
    entities = [Entity(f"Q{i}", name) for i, name in enumerate(names)]
    old, new = entities[: options.names], entities[options.names :]
    removed = {entities[i].id for i in rng.choice(options.names, EDITED, replace=False)}
    queries = make_queries(names, 2000, rng)
    rounds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            seconds, linker = one_round(Path(folder) / str(number), old, new, removed)
            if number == 0:
                scratch = build_kb([entity for entity in entities if entity.id not in removed], Path(folder) / "kb")
                expected = answers(build_name_index(scratch, Path(folder) / "names"), queries)
                found = answers(linker, queries)
                if found[0] != expected[0] or not np.array_equal(found[1], expected[1], equal_nan=True):
                    print("WRONG: the index that followed differs from one from scratch", file=sys.stderr)
                    return 1
            for label, value in seconds.items():
                rounds.setdefault(label, []).append(value)
    medians = {label: statistics.median(values) for label, values in rounds.items()}
    editing = sum(value for label, value in medians.items() if not label.startswith("build"))
    result = {
        "names": options.names,
        "answers and scores equal a build from scratch, queries": len(queries),
        "cpu seconds, median": {label: round(value, 3) for label, value in medians.items()},
        "building over editing": round((medians["build entities"] + medians["build index"]) / editing, 1),
        "rounds": options.rounds,
        "machine": f"{platform.machine()}, one thread",
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("oven-retrieval", "numpy")},
        },
    }
    print(json.dumps(result, indent=1))
    (RESULTS / f"edits_{options.names}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
