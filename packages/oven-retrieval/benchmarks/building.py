"""What building an index of names costs, next to tantivy in one process.

    python benchmarks/building.py --names 100000
    python benchmarks/building.py --names 200000 --without-tantivy

Names are those of `names.py`, of 2.9 words on average, and made-up products of five words. First every hundredth name
has to be found in both indexes. Then `build_kb` with `build_name_index`, the same without n-grams, and tantivy's index
on disk take turns, in processor time of all threads; ratios are of the medians. What numba compiles is compiled before.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from names import make_names

from oven_retrieval import build_kb, build_name_index

RESULTS = Path(__file__).parent / "results"


def make_products(count: int, rng: np.random.Generator) -> list[str]:
    """Make distinct names of products: a brand, two words, a number of the model, and a size."""
    brands, words, sizes = rng.integers(0, 800, count), rng.integers(0, 5000, (count, 2)), rng.integers(1, 200, count)
    return [f"Brand{brands[i]} word{words[i, 0]} word{words[i, 1]} M{i} {sizes[i]}ml" for i in range(count)]


def ours(names: list[str], folder: Path, ngrams: bool):
    """Build the knowledge base and its index of names."""
    return build_name_index(build_kb(names, folder / "kb"), folder / "names", ngrams=ngrams)


def tantivy_index(names: list[str], folder: Path):
    """Build the same in tantivy, on disk."""
    import tantivy

    schema = tantivy.SchemaBuilder().add_text_field("name", stored=True).build()
    folder.mkdir()
    index = tantivy.Index(schema, path=str(folder))
    writer = index.writer(heap_size=200_000_000, num_threads=1)
    for name in names:
        writer.add_document(tantivy.Document(name=name))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def finds(index, names: list[str]) -> bool:
    """Say whether every hundredth name is the first answer for itself, or as good as the first."""
    sample = names[::100]
    if hasattr(index, "link"):
        return [ranked[0] for ranked in index.link(sample).names()] == sample
    searcher = index.searcher()
    for name in sample:
        hits = searcher.search(index.parse_query(name.lower(), ["name"]), 1).hits
        if not hits or not set(name.lower().split()) & set(searcher.doc(hits[0][1])["name"][0].lower().split()):
            return False
    return True


def measure(names: list[str], rounds: int, with_tantivy: bool) -> dict[str, object] | None:
    """Check, then time the builds in turns; None where a check fails."""
    builds = {"ours": partial(ours, ngrams=True), "ours without n-grams": partial(ours, ngrams=False)}
    if with_tantivy:
        builds["tantivy"] = tantivy_index
    seconds: dict[str, list[float]] = {name: [] for name in builds}
    for number in range(rounds + 1):
        for name in sorted(builds, reverse=bool(number % 2)):
            with tempfile.TemporaryDirectory() as folder:
                gc.collect()
                start = time.process_time()
                index = builds[name](names if number else names[:10_000], Path(folder) / "index")
                spent = time.process_time() - start
                if number == 0:
                    if not finds(index, names[:10_000]):
                        print(f"{name}: does not find its names, no speed is reported")
                        return None
                else:
                    seconds[name].append(spent)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    result: dict[str, object] = {"cpu seconds: median": {name: round(value, 2) for name, value in medians.items()}}
    if with_tantivy:
        result["over tantivy (ratio of medians)"] = {
            name: round(value / medians["tantivy"], 1) for name, value in medians.items()
        }
    return result


def main() -> int:
    """Check, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without-tantivy", action="store_true")
    options = parser.parse_args()
    makers = {"names of 2.9 words": make_names, "products of five words": make_products}
    measured: dict[str, object] = {}
    for kind, make in makers.items():
        names = make(options.names, np.random.default_rng(0))
        measured[kind] = measure(names, options.rounds, not options.without_tantivy)
        if measured[kind] is None:
            return 1
    packages = ["oven-retrieval", "numpy", "numba", *([] if options.without_tantivy else ["tantivy"])]
    result = {
        "names": options.names,
        "rounds": options.rounds,
        **measured,
        "cores": os.cpu_count(),
        "load average": round(os.getloadavg()[0], 1),
        "machine": platform.machine(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
    }
    print(json.dumps(result, indent=1))
    (RESULTS / f"building_{options.names}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
