"""The default tuner and the batched search against ELEVATER's search run after run, and scikit-learn's C search.

Cached synthetic features (`synthetic.py`), CPU time of one thread, alternating; prints no speed unless the batched
search picks exactly what run-after-run picks. Writes results/tuning_CASE.json, or tuning_CASE_from_SEED.json, after
each seed. With --resume, what that file holds is kept, and only the methods and seeds that it lacks are run.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import sklearn
import torch
from synthetic import make

from vision_adapters.tuning import HeldOut, tune, tuning_data

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # where the definition is that the search is held to
from _run_after_run import tune_run_after_run

CASES = {"small": (2000, 512, 100), "large": (5000, 768, 200)}


def processor() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


METHODS = {
    "zero_shot": partial(tune, method="zero_shot"),
    "anchored": tune,
    "logistic": partial(tune, method="logistic"),
    "elevater_batched": partial(tune, method="elevater"),
    "elevater_run_after_run": tune_run_after_run,
}


def measure(row: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Run the methods that a row lacks, and see that the two searches agree."""
    samples, dim, classes = CASES[arguments.case]
    features = make(samples, dim, classes, row["seed"], noise=arguments.noise, text_noise=arguments.text_noise)
    data = tuning_data(features.train, features.train_labels, class_embeddings=features.texts, validation="toolkit")
    test_set = HeldOut(features.test, features.test_labels)
    for name in arguments.methods:
        slow = name == "elevater_run_after_run"
        if f"{name}_cpu" in row or (slow and row["seed"] >= arguments.first_seed + arguments.slow_seeds):
            continue
        start = time.process_time()
        tuned = METHODS[name](data)
        row[f"{name}_cpu"] = time.process_time() - start
        row[f"{name}_accuracy"] = test_set.score(tuned, resamples=0).value
        row[f"{name}_chosen"] = tuned.best_params
    if "elevater_run_after_run_chosen" in row and "elevater_batched_chosen" in row:
        row["same_pick"] = row["elevater_batched_chosen"] == row["elevater_run_after_run_chosen"]
        if not row["same_pick"]:
            raise SystemExit(f"picks differ, no speed is reported: {row}")


def summary(rows: list[dict[str, Any]], arguments: argparse.Namespace) -> dict[str, Any]:
    """Ratios of medians over the seeds on which every method ran, and on how many seeds the default is ahead."""
    samples, dim, classes = CASES[arguments.case]
    both = [row for row in rows if "same_pick" in row and "anchored_cpu" in row]

    def ratio(name: str) -> float | None:
        if not both:
            return None
        slow, ours = (
            statistics.median(row[f"{each}_cpu"] for row in both) for each in ("elevater_run_after_run", name)
        )
        return slow / ours

    def ahead(of: str) -> str:
        compared = [row for row in rows if f"{of}_accuracy" in row and "anchored_accuracy" in row]
        return f"{sum(row['anchored_accuracy'] >= row[f'{of}_accuracy'] for row in compared)} of {len(compared)}"

    return {
        "case": arguments.case, "samples": samples, "dim": dim, "classes": classes,
        "noise": arguments.noise, "text_noise": arguments.text_noise,
        "cpu_ratio_default": ratio("anchored"), "cpu_ratio_batched": ratio("elevater_batched"),
        "default_at_least_elevater": ahead("elevater_batched"), "default_at_least_logistic": ahead("logistic"),
        "slow_seeds": len(both), "rows": rows, "hardware": processor(), "threads": 1,
        "versions": {"torch": torch.__version__, "numpy": numpy.__version__, "scikit-learn": sklearn.__version__},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, default="small")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--slow-seeds", type=int, default=5, help="seeds on which run-after-run is measured")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--noise", type=float, default=6.0)
    parser.add_argument("--text-noise", type=float, default=2.5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    suffix = f"_from_{arguments.first_seed}" if arguments.first_seed else ""
    out = Path(__file__).parent / "results" / f"tuning_{arguments.case}{suffix}.json"
    record = json.loads(out.read_text())["rows"] if arguments.resume and out.exists() else []
    rows = {row["seed"]: row for row in record}
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        row = rows.setdefault(seed, {"seed": seed})
        measure(row, arguments)
        print({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
        lines = summary(list(rows.values()), arguments)
        out.write_text(json.dumps(lines, indent=1) + "\n")
    print(json.dumps({key: value for key, value in lines.items() if key != "rows"}, indent=1))


if __name__ == "__main__":
    main()
