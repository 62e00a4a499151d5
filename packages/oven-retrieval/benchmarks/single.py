"""Names one at a time and in batches, beside tantivy in one process, and what building the index takes.

    python benchmarks/single.py --names 100000
    python benchmarks/single.py --names 1000000
    python benchmarks/single.py --names 6000000

Names are those of `names.py`; the queries are mixes: a name as it is, with one of its words left out or another
name's word added, with a letter lost in each word, eight words of several names, and words that no name has. First
the single answers are compared with the batch's, to the bit. Then `link` of one
name, `link` without the step of n-grams (which tantivy's BM25 over words does not have either) and tantivy's search of
one take turns, a hundred new queries of one mix each, in processor time; tantivy's query parser is left out of its time
by making the queries beforehand, and it does not count all hits. The build runs in a process of its own, which reports
its peak of anonymous memory. Batches take as many threads as numba may (`NUMBA_NUM_THREADS`), so that they are timed by
the clock too, in turns with tantivy's searches of all the queries.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path

import numba
import numpy as np
from names import make_names

from oven_retrieval import Entity, KnowledgeBase, build_kb, build_name_index, open_name_index

RESULTS = Path(__file__).parent / "results"
BLOCK = 100
"""So many queries of one mix are asked of one engine before it is the next one's turn."""


def anonymous_mb() -> float:
    """Anonymous resident memory now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    return float("nan")


def build(folder: Path) -> None:
    """Build from a file of names and print the time and the peak, by phase."""
    peak, stop = [0.0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.02):
            peak[0] = max(peak[0], anonymous_mb())

    watcher = threading.Thread(target=watch)
    watcher.start()
    phases: dict[str, dict[str, float]] = {}
    start = time.process_time()

    def done(name: str) -> None:
        nonlocal start
        now = time.process_time()
        phases[name] = {"cpu seconds": round(now - start, 1), "peak anonymous MB": round(peak[0])}
        start, peak[0] = now, 0.0

    with (folder / "names.txt").open(encoding="utf-8") as file:
        kb = build_kb((Entity(str(i), line.rstrip("\n")) for i, line in enumerate(file)), folder / "kb")
    done("knowledge base")
    build_name_index(kb, folder / "names", tokenizer="whitespace")
    done("name index")
    stop.set()
    watcher.join()
    print(json.dumps(phases))


def query_mixes(names: list[str], count: int, rng: np.random.Generator) -> dict[str, list[str]]:
    """Queries of five kinds, `count` of each."""

    def draw() -> list[str]:
        return names[int(rng.integers(len(names)))].split()

    def with_typos(words: list[str]) -> str:
        cuts = [int(rng.integers(len(word))) for word in words]
        return " ".join(word[:cut] + word[cut + 1 :] or word for word, cut in zip(words, cuts, strict=True))

    def eight() -> str:
        words: list[str] = []
        while len(words) < 8:
            words += draw()
        return " ".join(words[:8])

    return {
        "exact": [" ".join(draw()) for _ in range(count)],
        "a word more": [" ".join([*draw(), draw()[0]]) for _ in range(count)],
        "typos": [with_typos(draw()) for _ in range(count)],
        "eight words": [eight() for _ in range(count)],
        "none": [f"qqzz{i} zzqq{i}" for i in range(count)],
    }


def tantivy_index(names):
    """The names in tantivy, in memory."""
    import tantivy

    index = tantivy.Index(tantivy.SchemaBuilder().add_text_field("name", tokenizer_name="whitespace").build())
    writer = index.writer(heap_size=200_000_000, num_threads=1)
    for name in names:
        writer.add_document(tantivy.Document(name=name))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def main() -> int:
    """Check, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--without-tantivy", action="store_true")
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.build:
        build(options.build)
        return 0
    rng = np.random.default_rng(0)
    names = make_names(options.names, rng)
    mixes = query_mixes(names, options.queries // 5, rng)
    texts = [text for queries in mixes.values() for text in queries]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "names.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
        done = subprocess.run(
            [sys.executable, __file__, "--build", temporary], capture_output=True, text=True, check=True
        )
        built = json.loads(done.stdout.splitlines()[-1])
        linker = open_name_index(folder / "names", KnowledgeBase(folder / "kb"))
        words = open_name_index(folder / "names", KnowledgeBase(folder / "kb"))
        words.ngrams = None
        words.link(texts[:: max(1, len(texts) // 1000)])
        batch = linker.link(texts)
        singles = [linker.link([text]) for text in texts]
        for column in ("rows", "scores", "kinds"):
            alone = np.concatenate([getattr(links, column) for links in singles])
            if not np.array_equal(alone, getattr(batch, column), equal_nan=True):
                print("single answers differ from the batch's, no speed is reported")
                return 1
        runs = {
            "link": lambda text: linker.link([text]),
            "link without n-grams": lambda text: words.link([text]),
        }
        settings = {text: text for text in texts}
        if not options.without_tantivy:
            index = tantivy_index(names)
            searcher = index.searcher()
            settings |= {("tantivy", text): index.parse_query(text, ["name"]) for text in texts}
            runs["tantivy"] = lambda query: searcher.search(query, 1, count=False)
        blocks: dict[str, dict[str, list[float]]] = {mix: {name: [] for name in runs} for mix in mixes}
        for mix, queries in mixes.items():
            for number, first in enumerate(range(0, len(queries), BLOCK)):
                for name in sorted(runs, reverse=bool(number % 2)):
                    block = [settings.get((name, text), text) for text in queries[first : first + BLOCK]]
                    start = time.process_time()
                    for query in block:
                        runs[name](query)
                    blocks[mix][name].append((time.process_time() - start) / len(block) * 1000)
        batches = {"link": linker, "link without n-grams": words}
        in_batches = {name: [] for name in batches}
        by_clock: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(5):
            for name, batch_linker in batches.items():
                start, clock = time.process_time(), time.perf_counter()
                batch_linker.link(texts)
                in_batches[name].append((time.process_time() - start) / len(texts) * 1000)
                by_clock[name].append((time.perf_counter() - clock) / len(texts) * 1000)
            if "tantivy" in runs:
                clock = time.perf_counter()
                for text in texts:
                    searcher.search(settings["tantivy", text], 1, count=False)
                by_clock["tantivy"].append((time.perf_counter() - clock) / len(texts) * 1000)
    by_mix = {mix: {name: statistics.median(values) for name, values in of.items()} for mix, of in blocks.items()}
    mean = {name: statistics.fmean(of[name] for of in by_mix.values()) for name in runs}
    result = {
        "names": len(names),
        "queries": len(texts),
        "one at a time, cpu ms: mean of the mixes' medians": {name: round(value, 4) for name, value in mean.items()},
        "over tantivy (ratio of means)": {
            name: round(value / mean["tantivy"], 2) for name, value in mean.items() if "tantivy" in mean
        },
        "by mix, cpu ms: median of the hundreds": {
            mix: {name: round(value, 4) for name, value in of.items()} for mix, of in by_mix.items()
        },
        "in batches, cpu ms: median": {
            name: round(statistics.median(values), 4) for name, values in in_batches.items()
        },
        "tantivy one by one over batches": {
            name: round(mean["tantivy"] / statistics.median(values), 1)
            for name, values in in_batches.items()
            if "tantivy" in mean
        },
        "in batches (tantivy one by one), ms by the clock: median": {
            name: round(statistics.median(values), 4) for name, values in by_clock.items() if values
        },
        "tantivy one by one over batches, by the clock": {
            name: round(statistics.median(by_clock["tantivy"]) / statistics.median(by_clock[name]), 1)
            for name in batches
            if "tantivy" in mean
        },
        "threads": numba.get_num_threads(),
        "build": built,
        "peak MB of this process": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "versions": {
            "python": platform.python_version(),
            **{
                name: version(name)
                for name in ("oven-retrieval", "numpy", "numba", *(["tantivy"] if "tantivy" in mean else []))
            },
        },
    }
    print(json.dumps(result, indent=1))
    (RESULTS / f"single_{options.names}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
