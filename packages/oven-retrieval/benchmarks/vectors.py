"""Vectors to entities: exact search and the planned index beside FAISS as it comes, in one process, alternating.

    python benchmarks/vectors.py --rows 200000 --dim 256

Documents lie around cluster centres; a query is its document moved across a gap that all queries share, as images lie
beside texts, plus noise that makes neighbours compete. Before any speed is printed, our exact search is compared with
FAISS's `IndexFlatIP`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import faiss
import numpy as np

from oven_retrieval.vectors import ArrayRows, build_index, build_vectors, exact_search, open_index
from oven_retrieval.vectors.exact import recall_at

RESULTS = Path(__file__).parent / "results"


def unit(matrix: np.ndarray) -> np.ndarray:
    """Rows of length 1, float32."""
    return (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)


def make(rows: int, queries: int, dim: int, rng: np.random.Generator) -> tuple[faiss.Index, np.ndarray, np.ndarray]:
    """Documents in FAISS's flat index, a view of them, and cross-modal queries."""
    centres = rng.normal(size=(max(100, rows // 200), dim)).astype(np.float32)
    flat = faiss.IndexFlatIP(dim)
    for first in range(0, rows, 50_000):
        count = min(50_000, rows - first)
        near = centres[rng.integers(0, len(centres), count)]
        flat.add(unit(near + np.float32(0.7) * rng.standard_normal((count, dim), dtype=np.float32)))
    base = faiss.rev_swig_ptr(flat.get_xb(), rows * dim).reshape(rows, dim)
    gap = unit(rng.normal(size=(1, dim)))
    picked = base[rng.integers(0, rows, queries)]
    return flat, base, unit(picked + 0.8 * gap + 2.5 * unit(rng.normal(size=(queries, dim))))


def cpu_ms(function, queries: int) -> float:
    """Processor time per query in milliseconds."""
    start = time.process_time()
    function()
    return (time.process_time() - start) / queries * 1000


def main() -> int:
    """Check, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--recall", type=float, default=0.96)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    faiss.omp_set_num_threads(1)
    rng = np.random.default_rng(0)
    flat, base, queries = make(options.rows, 2 * options.queries, options.dim, rng)
    tuning, queries = queries[: options.queries], queries[options.queries :]
    rows = ArrayRows(base)
    small, single = queries[:64], queries[:1]

    exact = exact_search(queries, rows, 10)
    scores, flat_rows = flat.search(queries, 10)
    if not np.allclose(scores, exact.scores, atol=1e-5) or recall_at(flat_rows, exact.rows, 10) < 0.9999:
        print("exact search differs from IndexFlatIP, no speed is reported")
        return 1

    with tempfile.TemporaryDirectory() as folder:
        store = build_vectors(
            lambda a, b: base[a:b], len(base), Path(folder) / "v", kb="b", encoder="b", dtype=np.float16, chunk=65536
        )
        start = time.process_time()
        build_index(store, Path(folder) / "i", recall=options.recall, queries=tuning, say=print)
        built = time.process_time() - start
        index = open_index(Path(folder) / "i", store)
        hits = index.search(queries, 10)
        runs = {
            "IndexFlatIP, batch 64": (lambda: flat.search(small, 10), 64),
            "exact_search, batch 64": (lambda: exact_search(small, rows, 10), 64),
            f"IndexFlatIP, batch {len(queries)}": (lambda: flat.search(queries, 10), len(queries)),
            f"exact_search, batch {len(queries)}": (lambda: exact_search(queries, rows, 10), len(queries)),
            "IndexFlatIP, one": (lambda: flat.search(single, 10), 1),
            "exact_search, one": (lambda: exact_search(single, rows, 10), 1),
            f"planned index, batch {len(queries)}": (lambda: index.search(queries, 10), len(queries)),
            "planned index, batch 64": (lambda: index.search(small, 10), 64),
            "planned index, one": (lambda: index.search(single, 10), 1),
        }
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(options.rounds):
            for name, (run, count) in runs.items():
                times[name].append(cpu_ms(run, count))
    median = {name: statistics.median(values) for name, values in times.items()}
    flat_mb = options.rows * options.dim * 4 / 1e6
    result = {
        "rows": options.rows,
        "dim": options.dim,
        "queries": len(queries),
        "plan": index.plan.factory,
        "probes": index.probes,
        "recall@1 on queries that were not used for tuning": round(recall_at(hits.rows, exact.rows, 1), 4),
        "recall@10 on them": round(recall_at(hits.rows, exact.rows, 10), 4),
        "index MB": round(index.megabytes, 1),
        "Flat MB": round(flat_mb, 1),
        "index over Flat, memory": round(index.megabytes / flat_mb, 3),
        "cpu seconds to train, add, tune and measure": round(built, 1),
        "cpu ms per query (median)": {name: round(value, 4) for name, value in median.items()},
        "cpu ms per query (all rounds)": {name: [round(x, 4) for x in values] for name, values in times.items()},
        "IndexFlatIP over exact_search at batch 64": round(
            median["IndexFlatIP, batch 64"] / median["exact_search, batch 64"], 2
        ),
        "IndexFlatIP over exact_search, one query": round(median["IndexFlatIP, one"] / median["exact_search, one"], 2),
        "peak MB of the process": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "IndexFlatIP over planned index, large batch": round(
            median[f"IndexFlatIP, batch {len(queries)}"] / median[f"planned index, batch {len(queries)}"], 2
        ),
        "cpu": next(
            (
                line.split(":")[1].strip()
                for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
                if line.startswith("model name")
            ),
            platform.machine(),
        ),
        "cores": os.cpu_count(),
        "threads": 1,
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("oven-retrieval", "numpy", "faiss-cpu")},
        },
    }
    print(json.dumps(result, indent=1))
    output = options.output or RESULTS / f"vectors_{options.rows}x{options.dim}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
