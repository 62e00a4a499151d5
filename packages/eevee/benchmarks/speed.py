"""Scoring 1,000 candidates (k = 8, 10 splits): one torch module for each candidate and split against ours.

The module way is timed on the first few candidates, in turns with ours on as many, and its time scaled to 1,000; the
closed form is timed on all 1,000. Checks first that both give the same errors to 1e-6.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
from pathlib import Path

import numpy as np
import torch
from _setting import alternate, record, stop

from eevee import MlpScorer, RidgeScorer, load_table
from eevee.scorers.mlp import shuffled_splits
from eevee.scorers.networks import draw_starts
from eevee.tables.standard import standardise


def reference():
    path = Path(__file__).parents[1] / "tests" / "_reference.py"
    spec = importlib.util.spec_from_file_location("eevee_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--candidates", type=int, default=32, help="for the networks; a multiple of the chunk is fair")
    options.add_argument("--repeats", type=int, default=5)
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    data = standardise(load_table("gate"))
    generator = random.Random(0)
    thousand = [tuple(sorted(generator.sample(range(30), 8))) for _ in range(1000)]
    few, sample = thousand[:4], thousand[: chosen.candidates]
    scorer = MlpScorer()
    splits, starts = shuffled_splits(data.groups, 10, 0.1, 0), draw_starts(30, 100, 10, 0)
    modules = reference()

    def by_module(candidates):
        return [
            np.mean(
                modules.module_scores(
                    data.values[:, list(c)], data.values, splits, starts, list(c), epochs=20, lr=0.01, weight_decay=0.01
                )
            )
            for c in candidates
        ]

    gap = float(np.abs(np.array(by_module(few)) - scorer.score(data, few)[:, 0]).max())
    if not gap < 1e-6:
        stop(f"errors differ by {gap}")
    chunks = (2, 5, 10, 20)
    runs = {"module": lambda: by_module(few), "automatic": lambda: scorer.score(data, sample)}
    runs |= {f"chunk {c}": (lambda c=c: MlpScorer(chunk=c).score(data, sample)) for c in chunks}
    runs["ridge"] = lambda: RidgeScorer().score(data, thousand)
    times = alternate(runs, chosen.repeats)
    result = {"threads": chosen.threads, "largest_difference": gap, "automatic_chunk": scorer.automatic_chunk(8, 30)}
    for clock in ("wall", "cpu"):
        module = times["module"][clock] / len(few) * 1000
        batched = times["automatic"][clock] / len(sample) * 1000
        best = min(times[f"chunk {c}"][clock] for c in chunks)
        result[clock] = {
            "module_s_per_1000": round(module, 1),
            "batched_s_per_1000": round(batched, 2),
            "batched_ratio": round(module / batched, 1),
            "ridge_s_per_1000": round(times["ridge"][clock], 5),
            "ridge_ratio": round(module / times["ridge"][clock]),
            "automatic_over_best_chunk": round(times["automatic"][clock] / best, 2),
        }
    result["chunks_cpu_s"] = {str(c): round(times[f"chunk {c}"]["cpu"], 3) for c in chunks}
    result["medians_of"] = chosen.repeats
    record(f"speed_{chosen.threads}_thread", result)


if __name__ == "__main__":
    main()
