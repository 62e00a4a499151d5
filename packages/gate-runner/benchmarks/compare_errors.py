"""How often `compare` finds a difference between equal encoders, and between encoders that do differ.

Each simulated family is one pair of encoders on six benchmarks, one per kind of metric. Both encoders see the same
samples, whose difficulty they share; what each adds is drawn independently from one distribution. Checked first: at
most 6 % of 1,000 equal pairs may differ at the 5 % level, for each metric and, after Holm's correction, for whole
families. Power is printed only when that holds, beside how often two separate 95 % intervals fail to overlap.

Usage: python compare_errors.py [--families 1000] [--output compare_errors.json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

from paired_scores.metrics import score_outcomes
from paired_scores.paired import holm, paired_test

PERMUTATIONS, RESAMPLES, ALPHA = 999, 400, 0.05
Pair = tuple[np.ndarray, np.ndarray]


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))


def hits(rng: np.random.Generator, shift: float) -> Pair:
    """Right or wrong on 400 samples; samples differ in how hard they are."""
    ease = rng.normal(0.8, 1.5, 400)
    a, b = (rng.random(400) < _sigmoid(ease + extra) for extra in (0.0, 4 * shift))
    return a.astype(float), b.astype(float)


def episodes(rng: np.random.Generator, shift: float) -> Pair:
    """Shares of 25 queries in 300 episodes."""
    ease = rng.normal(0.5, 0.6, 300)
    a, b = (rng.binomial(25, _sigmoid(ease + extra)) / 25 for extra in (0.0, shift))
    return a, b


def errors(rng: np.random.Generator, shift: float) -> Pair:
    """Absolute errors of 200 counts, skewed, larger for harder clips."""
    scale = rng.gamma(2.0, 0.4, 200)
    a, b = (np.abs(rng.normal(0, scale * (1 - extra))) for extra in (0.0, shift))
    return a, b


def masks(samples: int, classes: int) -> Callable[[np.random.Generator, float], Pair]:
    """Pixel counts of intersection, prediction and truth, classes absent from most images."""

    def draw(rng: np.random.Generator, shift: float) -> Pair:
        true = rng.integers(20, 400, (samples, classes)) * (rng.random((samples, classes)) < 0.4)
        true[:, 0] = rng.integers(400, 800, samples)
        ease = rng.normal(0.6, 0.8, (samples, 1))
        counts = []
        for extra in (0.0, shift):
            both = rng.binomial(true, _sigmoid(ease + extra + rng.normal(0, 0.3, (samples, classes))))
            wrong = rng.poisson(60, (samples, classes))
            counts.append(np.stack([both, both + wrong, true], axis=1).astype(float))
        return counts[0], counts[1]

    return draw


def rankings(rng: np.random.Generator, shift: float) -> Pair:
    """Scores of 150 samples for one label; the second encoder's lie on another scale."""
    truth = (rng.random((150, 1)) < 0.4).astype(float)
    ease = rng.normal(0, 0.7, (150, 1))
    a = truth + ease + rng.normal(0, 1, (150, 1))
    b = 30 * ((1 + 2 * shift) * truth + ease + rng.normal(0, 1, (150, 1))) - 7
    return np.stack([a, truth], axis=1), np.stack([b, truth], axis=1)


KINDS: dict[str, tuple[str, Callable[[np.random.Generator, float], Pair]]] = {
    "acc@1, 400 samples": ("acc@1", hits),
    "accuracy, 300 episodes": ("accuracy", episodes),
    "MAE, 200 clips": ("mae", errors),
    "mIoU, 200 images, 9 classes": ("miou", masks(200, 9)),
    "dice, 24 volumes, 4 classes": ("dice", masks(24, 4)),
    "AUC, 150 samples": ("roc_auc", rankings),
}


def rejections(families: int, shift: float, seed: int) -> tuple[dict[str, float], dict[str, float], float, float]:
    """Rejection rates by permutation and by bootstrap for each kind, of whole families after Holm, and of intervals."""
    permuted = dict.fromkeys(KINDS, 0)
    booted = dict.fromkeys(KINDS, 0)
    any_of_family = apart = 0
    for family in range(families):
        values = []
        for index, (kind, (metric, draw)) in enumerate(KINDS.items()):
            a, b = draw(np.random.default_rng([seed, family, index]), shift)
            test = paired_test(metric, [a], [b], seed=family, resamples=RESAMPLES, permutations=PERMUTATIONS)
            permuted[kind] += test.p_permutation <= ALPHA
            booted[kind] += test.p_bootstrap <= ALPHA
            values.append(test.p_permutation)
            if shift:
                first, second = (score_outcomes(metric, side, resamples=RESAMPLES) for side in (a, b))
                apart += first.high < second.low or second.high < first.low
        any_of_family += min(holm(values)) <= ALPHA
    share = [{kind: count / families for kind, count in test.items()} for test in (permuted, booted)]
    return share[0], share[1], any_of_family / families, apart / families / len(KINDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", type=int, default=1000)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "compare_errors.json")
    options = parser.parse_args()
    start = time.perf_counter()
    equal, equal_boot, family, _ = rejections(options.families, 0.0, 1)
    print(f"equal encoders, {options.families} pairs, level {ALPHA}: share that 'differ'")
    for kind in KINDS:
        print(f"  {kind:<30}{equal[kind]:>8.3f}  (bootstrap {equal_boot[kind]:.3f})")
    print(f"  {'any of the six, after Holm':<30}{family:>8.3f}")
    report = {"families": options.families, "equal": equal, "equal_bootstrap": equal_boot, "family_wise": family}
    if max(*equal.values(), family) > 0.06:
        raise SystemExit("more than 6 % of equal encoders differ: no power is worth printing")
    few = max(1, options.families // 5)
    power, _, _, apart = rejections(few, 0.15, 2)
    print(f"encoders that differ, {few} pairs: share found")
    for kind in KINDS:
        print(f"  {kind:<30}{power[kind]:>8.3f}")
    print(f"  mean {np.mean(list(power.values())):.3f}; two separate 95 % intervals do not overlap in {apart:.3f}")
    report |= {
        "power": power,
        "power_families": few,
        "intervals_apart": apart,
        "permutations": PERMUTATIONS,
        "seconds": time.perf_counter() - start,
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
        "versions": {name: version(name) for name in ("gate-runner", "vision-adapters", "numpy")},
    }
    options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
