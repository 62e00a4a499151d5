"""Typos in WordNet's names: how many are found with the typo step and without, and what a query costs.

    python benchmarks/typos.py path/to/wordnet_nouns.jsonl.gz

Names and aliases of at least 4 characters, drawn at random, get one or two edits at random places: a letter put in,
left out or exchanged, or two neighbours swapped. Those that are then the name of something else are left out. A query
counts as found where the first answer (or one of the first five) has the name that was spoiled. First the index is
compared with a look at every name on a few queries.
"""

from __future__ import annotations

import argparse
import json
import platform
import string
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

from oven_retrieval import build_kb_from_file, build_name_index
from oven_retrieval.evaluation import wilson
from oven_retrieval.names.ngrams import allowed_edits, edit_distance
from oven_retrieval.names.places import name_texts
from oven_retrieval.tokens import fold, plain

RESULTS = Path(__file__).parent / "results"


def spoil(name: str, edits: int, rng: np.random.Generator) -> str:
    """A name after random edits."""
    for _ in range(edits):
        at, letter = int(rng.integers(len(name))), string.ascii_lowercase[int(rng.integers(26))]
        kind = rng.integers(4)
        if kind == 0:
            name = name[:at] + letter + name[at:]
        elif kind == 1:
            name = name[:at] + name[at + 1 :]
        elif kind == 2:
            name = name[:at] + letter + name[at + 1 :]
        else:
            at = min(at, len(name) - 2)
            name = name[:at] + name[at + 1] + name[at] + name[at + 2 :]
    return name


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("entities", type=Path)
    parser.add_argument("--queries", type=int, default=4000)
    parser.add_argument("--output", type=Path, default=RESULTS / "typos_wordnet.json")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        kb = build_kb_from_file(options.entities, Path(folder) / "kb")
        linkers = {}
        for label, ngrams in (("without", False), ("with n-grams", True), ("with the typo step, too", True)):
            start = time.process_time()
            linkers[label] = build_name_index(kb, Path(folder) / "names", ngrams=ngrams, overwrite=True)
            build_seconds = time.process_time() - start
        linkers["with the typo step, too"].typos = True
        files = (Path(folder) / "names").glob("ngram_*")
        megabytes = sum(file.stat().st_size for file in files) / 1e6
        bare = linkers["without"]
        index = linkers["with n-grams"].ngrams
        texts = list(dict.fromkeys(name_texts(kb)))
        folded = {fold(text) for text in texts}
        long_enough = [text for text in texts if len(text) >= 4]

        for position in rng.integers(0, len(long_enough), 12).tolist():
            query = plain(spoil(long_enough[position], 2, rng))
            most = allowed_edits(query)
            near = {text for text in texts if most and edit_distance(query, plain(text), most) <= most}
            if set(index.within(query).text) != near:
                print(f"WRONG: {query!r}", file=sys.stderr)
                return 1

        result: dict[str, object] = {
            "names": len(texts),
            "index": {"build with n-grams, cpu s": round(build_seconds, 1), "n-grams, MB": round(megabytes, 1)},
        }
        for edits in (1, 2):
            pairs = []
            while len(pairs) < options.queries:
                name = long_enough[int(rng.integers(len(long_enough)))]
                query = spoil(name, edits, rng)
                if fold(query) and fold(query) not in folded:
                    pairs.append((query, set(bare.candidates(name).tolist())))
            queries = [query for query, _ in pairs]
            row: dict[str, object] = {}
            for label, used in linkers.items():
                start = time.process_time()
                links = used.link(queries, 5)
                milliseconds = (time.process_time() - start) / len(queries) * 1e3
                hits = np.array(
                    [[int(r) in truth for r in rows] for rows, (_, truth) in zip(links.rows, pairs, strict=True)]
                )
                row[label] = {
                    "recall@1 %": [round(x, 2) for x in wilson(int(hits[:, 0].sum()), len(hits))],
                    "recall@5 %": [round(x, 2) for x in wilson(int(hits.any(axis=1).sum()), len(hits))],
                    "ms per query": round(milliseconds, 3),
                }
            result[f"{edits} edit{'s' * (edits > 1)}"] = row
        result["versions"] = {"python": platform.python_version(), "oven-retrieval": version("oven-retrieval")}
        result["machine"] = f"{platform.machine()}, one thread, processor time"
    print(json.dumps(result, indent=1))
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
