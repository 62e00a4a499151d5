"""Few test items, real encoders: how well chosen items tell the score of an encoder that took no part.

    python experiments/items_encoders.py [--runs FOLDER]     # about 10 processor minutes; continues where it ended

Runs gate-runner's frozen encoders on scikit-learn's digits (`ENCODERS`), then leaves one encoder out at a time:
the items are chosen on the others, and the one left out is scored on those alone. Errors are root mean squares over
encoders, in points of accuracy. Beside them what as many items drawn at random give (20 draws, their plain mean), and
the interval's coverage. Writes results/items_encoders.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import timm

import gate_runner
from eevee import Outcomes, choose_items, estimate
from eevee.items.reading import read_outcomes

RESULTS = Path(__file__).with_name("results")
# timm's small test architectures are untrained here: what differs between them is the architecture.
SLOW = ("test_maxvit", "test_coatnet", "test_mambaout", "test_vit4")
SMALL = sorted(name for name in timm.list_models("test_*") if name not in SLOW)
ENCODERS = ("micro-clip", "micro-clip/random", "lite:0", *(f"timm:{name}/random" for name in SMALL))
BENCHMARKS = ("digits",)
SHARES = (0.05, 0.1, 0.25, 0.5)
DRAWS = 20


def without(outcomes: Outcomes, model: int) -> Outcomes:
    rows = [row for row in range(len(outcomes.models)) if row != model]
    models = tuple(outcomes.models[row] for row in rows)
    return Outcomes(outcomes.benchmark, models, outcomes.items, outcomes.values[rows], outcomes.unit, outcomes.digest)


def held_out(outcomes: Outcomes, share: float) -> dict[str, float | int]:
    """Errors in points of every model's score, told from items that were chosen on the other models."""
    generator = np.random.default_rng(0)
    truth = outcomes.values.mean(axis=1)
    column = {key: number for number, key in enumerate(outcomes.items)}
    off, plain, inside, size = [], [], [], 0
    for model, row in enumerate(outcomes.values):
        chosen = choose_items({outcomes.benchmark: without(outcomes, model)}, share=share).benchmarks[
            outcomes.benchmark
        ]
        size = len(chosen.items)
        estimated = estimate(chosen, {key: float(row[column[key]]) for key in chosen.items})
        scale = chosen.unit
        off.append(estimated.value / scale - truth[model])
        inside.append(estimated.low / scale <= truth[model] <= estimated.high / scale)
        draws = [row[generator.choice(len(row), size, replace=False)].mean() for _ in range(DRAWS)]
        plain.append(np.mean((np.array(draws) - truth[model]) ** 2))
    return {
        "items": size,
        "rmse": round(100 * float(np.sqrt(np.mean(np.square(off)))), 2),
        "random_rmse": round(100 * float(np.sqrt(np.mean(plain))), 2),
        "coverage_of_90": round(float(np.mean(inside)), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs-items"))
    options = parser.parse_args()
    folders = []
    for spec in ENCODERS:
        folder = options.runs / spec.replace(":", "-").replace("/", "-")
        done = gate_runner.run(BENCHMARKS, encoder=spec, output=folder)
        failed = [result.name for result in done if result.status != "ok"]
        if failed:
            raise SystemExit(f"{spec}: {', '.join(failed)} failed; see {folder}")
        folders.append(folder)
    outcomes = read_outcomes(folders)
    result: dict[str, object] = {}
    lines = [
        f"{len(ENCODERS)} encoders, one left out at a time; errors are root mean squares in points of accuracy.",
        "",
        "| benchmark | items | scores | share | items used | RMSE | as many at random | coverage of 90 % |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in BENCHMARKS:
        benchmark_outcomes = outcomes[name]
        scores = benchmark_outcomes.values.mean(axis=1)
        span = f"{scores.min():.2f} to {scores.max():.2f}"
        for share in SHARES:
            row = held_out(benchmark_outcomes, share)
            result[f"{name}, {share:.0%}"] = {"of": len(benchmark_outcomes.items), "scores": span, **row}
            lines.append(
                f"| {name} | {len(benchmark_outcomes.items)} | {span} | {share:.0%} | {row['items']} | {row['rmse']} |"
                f" {row['random_rmse']} | {row['coverage_of_90']:.0%} |"
            )
            print(lines[-1], flush=True)
    machine = {"cpu": platform.machine(), "cores": os.cpu_count(), "timm": timm.__version__, "encoders": ENCODERS}
    (RESULTS / "items_encoders.json").write_text(json.dumps({"machine": machine, **result}, indent=1) + "\n")
    (RESULTS / "items_encoders.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
