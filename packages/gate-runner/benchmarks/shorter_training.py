"""Whether heads that are trained in fewer steps score below those of the training before, and what they cost.

The rule, which is older than the figures. Numbers of the recipe were chosen on validation splits. Then test splits are
scored once, with seeds 0, 1 and 2, by both trainings, on the same cached features of micro-clip and of
micro-clip/random. Two figures of each stand-in are tested at the 5 % level, samples and seeds paired
(`paired_scores.paired_test`, whose p of several seeds holds the variation of seeds):

- the score of micro-clip, after less before;
- its distance from random weights, (micro-clip less random) after, less the same before.

A stand-in fails where p of either is at most .05 and the figure is worse. No correction for the number of tests: it
would make failing harder. Both mean differences are kept, whatever their p.

Each training is a run folder for each encoder, made by the revision that it belongs to:

    gate-runner run acdc ade20k clevr-math iwildcam --encoder micro-clip --seed 0 --seed 1 --seed 2 --output BEFORE/clip
    gate-runner run acdc ade20k clevr-math iwildcam --encoder micro-clip/random … --output BEFORE/random
    python packages/gate-runner/benchmarks/shorter_training.py BEFORE AFTER [--output shorter_training.json]

Seeds that both folders have are tested; the file says which.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from gate_runner.runs.stored import StoredRun, read_run
from paired_scores.paired import Outcomes, PairedTest, Statistic, Weights, aligned, paired_test, value_of

ALPHA = 0.05
ENCODERS = ("clip", "random")


def by_seed(run: StoredRun, name: str) -> dict[int, Outcomes]:
    """Outcomes of the headline's samples, by the seed of the head."""
    return {result.seed: run.outcomes(result) for result in run.named(name) if result.status == "ok"}


def distance(metric: str) -> Statistic:
    """The metric of the first of two models less that of the second, whose outcomes lie side by side."""
    compute = value_of(metric)

    def statistic(both: Outcomes, weights: Weights) -> Any:
        return compute(both[:, 0], weights) - compute(both[:, 1], weights)

    return statistic


def side_by_side(metric: str, clip: Outcomes, random: Outcomes) -> Outcomes:
    """Outcomes of two models of each sample ``[n, 2, …]``."""
    return np.stack(aligned(metric, np.asarray(clip, np.float64), np.asarray(random, np.float64)), axis=1)


def row_of(test: PairedTest, sign: int) -> dict[str, Any]:
    """What is kept of a test; ``worse`` is the rule's."""
    return {
        "before": test.first,
        "after": test.second,
        "difference": test.difference,
        "interval": [test.low, test.high],
        "p": test.p,
        "by_seed": list(test.by_seed),
        "samples": test.samples,
        "worse": bool(test.p <= ALPHA and sign * test.difference < 0),
    }


def tested(before: dict[str, StoredRun], after: dict[str, StoredRun], name: str) -> dict[str, Any]:
    """Both tests of one stand-in, on the seeds that all of the runs have."""
    score = before["clip"].named(name)[0].scores[0]
    metric, sign = score.metric, 1 if score.direction == "higher" else -1
    sides = [{encoder: by_seed(side[encoder], name) for encoder in side} for side in (before, after)]
    of_clip = sorted(set(sides[0]["clip"]) & set(sides[1]["clip"]))
    first, second = ([side["clip"][seed] for seed in of_clip] for side in sides)
    report = {"metric": metric, "seeds": of_clip, "score": row_of(paired_test(metric, first, second), sign)}
    both = [seed for seed in of_clip if all(seed in side.get("random", {}) for side in sides)]
    if both:
        first, second = (
            [side_by_side(metric, side["clip"][seed], side["random"][seed]) for seed in both] for side in sides
        )
        test = paired_test(metric, first, second, statistic=distance(metric))
        report |= {"seeds_of_distance": both, "distance": row_of(test, sign)}
    return report


def runs_in(folder: Path) -> dict[str, StoredRun]:
    """The runs of both encoders, those that are there."""
    return {encoder: read_run(folder / encoder) for encoder in ENCODERS if (folder / encoder).is_dir()}


def names_of(sides: Sequence[dict[str, StoredRun]]) -> list[str]:
    """Stand-ins that micro-clip was scored on by both trainings."""
    first, second = ({result.name for result in side["clip"].results if result.status == "ok"} for side in sides)
    return sorted(first & second)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="folder of the run folders clip and random, of the training before")
    parser.add_argument("after", type=Path)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "shorter_training.json")
    options = parser.parse_args()
    before, after = runs_in(options.before), runs_in(options.after)
    rows = {name: tested(before, after, name) for name in names_of((before, after))}
    if not rows:
        raise SystemExit("the folders share no stand-in that micro-clip was scored on")
    print(f"{'stand-in':<18}{'figure':<10}{'before':>8}{'after':>8}  {'difference':<26}{'p':>7}  seeds")
    for name, row in rows.items():
        for figure, seeds in (("score", "seeds"), ("distance", "seeds_of_distance")):
            if figure in row:
                own = row[figure]
                low, high = own["interval"]
                change = f"{own['difference']:+.3f} ({low:+.3f}, {high:+.3f})"
                print(
                    f"{name:<18}{figure:<10}{own['before']:>8.3f}{own['after']:>8.3f}  {change:<26}{own['p']:>7.3f}  "
                    f"{len(row[seeds])}{'  WORSE' if own['worse'] else ''}"
                )
    worse = [name for name, row in rows.items() if any(row.get(key, {}).get("worse") for key in ("score", "distance"))]
    report = {
        "rows": rows,
        "worse": worse,
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count()},
        "versions": {name: version(name) for name in ("gate-runner", "torch", "numpy")},
    }
    options.output.write_text(json.dumps(report, indent=2) + "\n")
    print(f"worse by the rule: {', '.join(worse) or 'none'}")


if __name__ == "__main__":
    main()
