"""How often `compare` finds a difference between equal encoders whose heads vary with the seed.

Each simulated pair is scored with some seeds on 400 samples. The two encoders are equal; each trained head is a little
better or worse than the encoder's mean, by as much as the samples alone make a score uncertain, or three times that.
Checked: at most 6 % of 1,000 pairs differ at the 5 % level. Beside it stands what the permutation test finds, which
takes the heads as they are. Power for an encoder that is better is printed only when the check holds.

Usage: python compare_seeds.py [--pairs 1000] [--seeds 3] [--output compare_seeds.json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np

from paired_scores.paired import paired_test

SAMPLES, ALPHA = 400, 0.05


def rejected(pairs: int, seeds: int, spread: float, shift: float, first_seed: int) -> tuple[float, float]:
    """Shares of pairs that differ: by the deciding p, and by the permutation test alone."""
    decided = permuted = 0
    for pair in range(pairs):
        rng = np.random.default_rng([first_seed, pair])
        ease = rng.normal(0.8, 1.5, SAMPLES)
        sides = [
            [
                (rng.random(SAMPLES) < 1 / (1 + np.exp(-(ease + extra + rng.normal(0, spread))))).astype(float)
                for _ in range(seeds)
            ]
            for extra in (0.0, shift)
        ]
        test = paired_test("acc@1", sides[0], sides[1], seed=pair, resamples=200, permutations=199)
        decided += test.p <= ALPHA
        permuted += test.p_permutation <= ALPHA
    return decided / pairs, permuted / pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "compare_seeds.json")
    options = parser.parse_args()
    report: dict[str, object] = {"pairs": options.pairs, "samples": SAMPLES, "seeds": options.seeds}
    for name, spread in (("none", 0.0), ("as samples", 0.15), ("three times", 0.45)):
        decided, permuted = rejected(options.pairs, options.seeds, spread, 0.0, 1)
        report[f"equal, {name}"] = {"spread": spread, "decided": decided, "permutation": permuted}
        print(f"equal encoders, heads vary {name:<12} {decided:.3f} differ (permutation alone {permuted:.3f})")
        if decided > 0.06:
            raise SystemExit("more than 6 % of equal encoders differ: no power is worth printing")
    few = max(1, options.pairs // 5)
    for name, spread in (("none", 0.0), ("as samples", 0.15)):
        decided, _ = rejected(few, options.seeds, spread, 0.8, 2)
        report[f"power, {name}"] = decided
        print(f"a better encoder, heads vary {name:<12} {decided:.3f} found")
    report["hardware"] = {"machine": platform.machine(), "cores": os.cpu_count()}
    report["versions"] = {name: version(name) for name in ("gate-runner", "vision-adapters", "numpy")}
    options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
