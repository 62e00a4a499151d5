"""The default tuner and the batched search against ELEVATER's search run after run, and scikit-learn's C search.

Cached synthetic features (`synthetic.py`), CPU time of one thread, alternating; prints no speed unless the batched
search picks exactly what run-after-run picks. Writes results/tuning_CASE.json, or tuning_CASE_from_SEED.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from functools import partial
from pathlib import Path

import numpy
import sklearn
import torch
from synthetic import make

from vision_adapters.tuning import HeldOut, tune, tune_elevater, tuning_data

CASES = {"small": (2000, 512, 100), "large": (5000, 768, 200)}


def processor() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES, default="small")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--slow-seeds", type=int, default=5, help="seeds on which run-after-run is measured")
    parser.add_argument("--noise", type=float, default=6.0)
    parser.add_argument("--text-noise", type=float, default=2.5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    samples, dim, classes = CASES[arguments.case]
    rows = []
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        features = make(samples, dim, classes, seed, noise=arguments.noise, text_noise=arguments.text_noise)
        data = tuning_data(features.train, features.train_labels, class_embeddings=features.texts, validation="toolkit")
        held = HeldOut(features.test, features.test_labels)
        row: dict[str, object] = {"seed": seed}
        runs = {
            "zero_shot": partial(tune, data, "zero_shot"),
            "anchored": partial(tune, data),
            "logistic": partial(tune, data, "logistic"),
            "elevater_batched": partial(tune_elevater, data),
        }
        if seed < arguments.first_seed + arguments.slow_seeds:
            runs["elevater_run_after_run"] = partial(tune_elevater, data, batched=False)
        chosen = {}
        for name, run in runs.items():
            start = time.process_time()
            tuned = run()
            row[f"{name}_cpu"] = time.process_time() - start
            row[f"{name}_accuracy"] = held.score(tuned, resamples=0).value
            chosen[name] = tuned.chosen
        if "elevater_run_after_run" in chosen:
            row["same_pick"] = chosen["elevater_batched"] == chosen["elevater_run_after_run"]
            if not row["same_pick"]:
                raise SystemExit(f"seed {seed}: picks differ, no speed is reported: {chosen}")
        rows.append(row)
        print({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}, flush=True)

    both = [row for row in rows if "same_pick" in row]  # ratios compare runs of the same seed, minutes apart at most

    def median(name: str) -> float:
        return statistics.median(float(row[name]) for row in both)

    slow = median("elevater_run_after_run_cpu")
    summary = {
        "case": arguments.case, "samples": samples, "dim": dim, "classes": classes,
        "noise": arguments.noise, "text_noise": arguments.text_noise,
        "cpu_ratio_default": slow / median("anchored_cpu"),
        "cpu_ratio_batched": slow / median("elevater_batched_cpu"),
        "default_at_least_elevater": sum(r["anchored_accuracy"] >= r["elevater_batched_accuracy"] for r in rows),
        "default_at_least_logistic": sum(r["anchored_accuracy"] >= r["logistic_accuracy"] for r in rows),
        "seeds": len(rows), "slow_seeds": sum("same_pick" in row for row in rows), "rows": rows,
        "hardware": processor(), "threads": 1,
        "versions": {"torch": torch.__version__, "numpy": numpy.__version__, "scikit-learn": sklearn.__version__},
    }  # fmt: skip
    print(json.dumps({key: value for key, value in summary.items() if key != "rows"}, indent=1))
    suffix = f"_from_{arguments.first_seed}" if arguments.first_seed else ""
    out = Path(__file__).parent / "results" / f"tuning_{arguments.case}{suffix}.json"
    out.write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
