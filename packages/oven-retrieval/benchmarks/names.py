"""Names to entities: our pruned index beside rank_bm25, bm25s (numba) and tantivy, in one process, alternating.

    python benchmarks/names.py --names 100000
    python benchmarks/names.py --names 1000000
    python benchmarks/names.py --names 6000000 --rounds 2 --without bm25s tantivy  # 9 GB, 5 minutes

Names are made up: 2.9 words on average, drawn from a Zipf-like vocabulary. Of the queries, a half are names, a
quarter lack or have one
word more, a quarter are words drawn anew. Before any speed is printed, our best score is compared with rank_bm25's on
the queries that rank_bm25 is timed on, and with bm25s's on all.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

from oven_retrieval import Entity, build_kb, build_name_index, open_name_index
from oven_retrieval.kb import KnowledgeBase
from oven_retrieval.names import PrunedIndex
from oven_retrieval.names.impacts import K1, B

RESULTS = Path(__file__).parent / "results"


def make_names(count: int, rng: np.random.Generator) -> list[str]:
    """Distinct names of 1 to 7 words, 2.9 on average."""
    vocabulary = max(2000, count // 4)
    weights = 1 / (np.arange(vocabulary) + 10.0) ** 0.95
    bounds = np.cumsum(weights / weights.sum())
    lengths = rng.choice([1, 2, 3, 4, 5, 6, 7], p=[0.09, 0.4, 0.24, 0.14, 0.07, 0.04, 0.02], size=int(count * 1.5))
    words = np.minimum(np.searchsorted(bounds, rng.random(int(lengths.sum()))), vocabulary - 1)
    names, at = dict[str, None](), 0
    for length in lengths.tolist():
        names[" ".join([f"w{word}" for word in words[at : at + length]])] = None
        at += length
        if len(names) == count:
            break
    while len(names) < count:
        names[f"rare{len(names)} w{rng.integers(vocabulary)}"] = None
    return list(names)


def make_queries(names: list[str], count: int, rng: np.random.Generator) -> list[str]:
    """Half names, a quarter with a word more or less, a quarter new."""
    picked = [names[i].split() for i in rng.integers(0, len(names), count)]
    queries = []
    for i, words in enumerate(picked):
        other = names[int(rng.integers(len(names)))].split()
        if i % 4 == 2:
            words = [*words, other[0]] if len(words) < 2 or rng.random() < 0.5 else words[1:]
        elif i % 4 == 3:
            words = [*other[:1], *words[:2]]
        queries.append(" ".join(words))
    return queries


def cpu_seconds(function) -> float:
    """Processor time of one call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def resident_mb() -> float:
    """Resident memory now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def alone(options: argparse.Namespace, part: str, folder: str = "") -> float:
    """Resident MB that one side needs in a process of its own: see `memory`."""
    command = [sys.executable, __file__, "--names", str(options.names), "--queries", str(options.queries)]
    done = subprocess.run([*command, "--memory", part, "--folder", folder], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def memory(options: argparse.Namespace) -> float:
    """Resident MB that the names have added once everything but the index itself is gone."""
    if options.memory == "ours":
        texts = (Path(options.folder) / "queries.txt").read_text(encoding="utf-8").split("\n")
        before = resident_mb()
        linker = open_name_index(Path(options.folder) / "names", KnowledgeBase(Path(options.folder) / "kb"))
        linker.link(texts)
        return resident_mb() - before
    from rank_bm25 import BM25Okapi

    before = resident_mb()
    tokens = [name.split() for name in make_names(options.names, np.random.default_rng(0))]
    rank = BM25Okapi(tokens, k1=K1, b=B)
    del tokens
    gc.collect()
    return resident_mb() - before if rank.corpus_size else float("nan")


def main() -> int:
    """Check, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slow-queries", type=int, default=4, help="queries per round for rank_bm25")
    parser.add_argument("--without", nargs="*", default=[], choices=["rank_bm25", "bm25s", "tantivy"])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--memory", choices=["ours", "rank_bm25"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        print(memory(options))
        return 0
    own = {} if "rank_bm25" in options.without else {"rank_bm25": alone(options, "rank_bm25")}
    rng = np.random.default_rng(0)
    names = make_names(options.names, rng)
    texts = make_queries(names, options.queries, rng)
    queries = [text.split() for text in texts]
    tokens = [[sys.intern(word) for word in name.split()] for name in names]

    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        kb = build_kb((Entity(str(i), name) for i, name in enumerate(names)), Path(folder) / "kb")
        built_kb = time.process_time() - start
        start = time.process_time()
        build_name_index(kb, Path(folder) / "names", tokenizer="whitespace")
        built_index = time.process_time() - start
        (Path(folder) / "queries.txt").write_text("\n".join(texts), encoding="utf-8")
        own["ours"] = alone(options, "ours", folder)
        disk = sum(file.stat().st_size for file in (Path(folder) / "names").iterdir()) / 1e6
        del kb
        before, start = resident_mb(), time.perf_counter()
        linker = open_name_index(Path(folder) / "names", KnowledgeBase(Path(folder) / "kb"))
        first = linker.link(texts[:1])
        loaded = time.perf_counter() - start
        assert first.rows[0, 0] >= 0
        engine: PrunedIndex = linker.engine
        ours = engine.search(queries)
        resident = resident_mb() - before

        runs = {"pruned": lambda: engine.search(queries), "exact first": lambda: linker.link(texts)}
        per_call = {"pruned": len(queries), "exact first": len(texts)}
        peers: dict[str, float] = {}
        problems: list[str] = []
        if "rank_bm25" not in options.without:
            from rank_bm25 import BM25Okapi

            before = resident_mb()
            rank = BM25Okapi(tokens, k1=K1, b=B)
            peers["rank_bm25"] = resident_mb() - before
            slow = queries[: options.slow_queries]
            best = np.array([rank.get_scores(query).max() for query in slow])
            if not np.allclose(ours.scores[: len(slow), 0], best, rtol=0, atol=1e-4):
                problems.append(f"rank_bm25: {ours.scores[: len(slow), 0]} against {best}")
            runs["rank_bm25"] = lambda: [np.argmax(rank.get_scores(query)) for query in slow]
            per_call["rank_bm25"] = len(slow)
        if "bm25s" not in options.without:
            import bm25s

            before = resident_mb()
            sparse = bm25s.BM25(k1=K1, b=B, method="robertson", backend="numba")
            sparse.index(tokens, show_progress=False)
            peers["bm25s"] = resident_mb() - before
            part = queries[: max(200, len(queries) // 20)]
            retrieved = sparse.retrieve(part, k=1, show_progress=False, n_threads=1)
            if not np.allclose(retrieved.scores[:, 0] * (K1 + 1), ours.scores[: len(part), 0], rtol=1e-5, atol=1e-4):
                problems.append("bm25s: best scores differ")
            runs["bm25s"] = lambda: sparse.retrieve(part, k=1, show_progress=False, n_threads=1)
            per_call["bm25s"] = len(part)
        if "tantivy" not in options.without:
            import tantivy

            schema = tantivy.SchemaBuilder().add_text_field("name", tokenizer_name="whitespace").build()
            index = tantivy.Index(schema)
            before = resident_mb()
            writer = index.writer(heap_size=200_000_000, num_threads=1)
            for name in names:
                writer.add_document(tantivy.Document(name=name))
            writer.commit()
            writer.wait_merging_threads()
            index.reload()
            peers["tantivy"] = resident_mb() - before
            searcher = index.searcher()
            some = texts[: max(500, len(texts) // 4)]
            runs["tantivy"] = lambda: [searcher.search(index.parse_query(text, ["name"]), 1) for text in some]
            per_call["tantivy"] = len(some)

        if problems:
            print("scores differ, no speed is reported:", *problems, sep="\n  ")
            return 1
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(options.rounds):
            for name, run in runs.items():
                times[name].append(cpu_seconds(run) / per_call[name] * 1000)
        single = (
            statistics.median(cpu_seconds(lambda i=i: engine.search(queries[i : i + 1])) for i in range(200)) * 1000
        )

    result = {
        "names": len(names),
        "words per name": round(sum(map(len, tokens)) / len(tokens), 3),
        "queries": len(queries),
        "cpu ms per query (median)": {name: round(statistics.median(t), 5) for name, t in times.items()},
        "cpu ms per query (all rounds)": {name: [round(x, 5) for x in t] for name, t in times.items()},
        "peer over pruned (ratio of medians)": {
            name: round(statistics.median(times[name]) / statistics.median(times["pruned"]), 1) for name in times
        },
        "peer over exact first (ratio of medians)": {
            name: round(statistics.median(times[name]) / statistics.median(times["exact first"]), 1) for name in times
        },
        "pruned, one query at a time, cpu ms": round(single, 4),
        "checked against": [name for name in ("rank_bm25", "bm25s") if name not in options.without],
        "index MB on disk": round(disk, 1),
        "seconds to open and answer the first query": round(loaded, 4),
        "resident MB after all queries (mapped pages included)": round(resident, 1),
        "resident MB in a process of its own": {name: round(mb, 1) for name, mb in own.items()},
        "peers' resident MB here (not what they take from freed memory)": {
            name: round(mb, 1) for name, mb in peers.items()
        },
        "cpu seconds to build": {"knowledge base": round(built_kb, 1), "name index": round(built_index, 1)},
        "peak MB of the process": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "machine": platform.processor() or platform.machine(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "versions": {
            "python": platform.python_version(),
            **{
                name: version(name)
                for name in ("oven-retrieval", "numpy", "rank-bm25", "bm25s", "numba", "tantivy")
                if _has(name)
            },
        },
    }
    print(json.dumps(result, indent=1))
    output = options.output or RESULTS / f"names_{options.names}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "?")


def _has(name: str) -> bool:
    try:
        version(name)
    except Exception:  # noqa: BLE001  # any trouble means that it is not installed
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
