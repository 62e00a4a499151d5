"""How often `choose` calls an encoder worse that is as good as the best, and how often it finds one that is better.

Each draw is a choice among simulated encoders on 2,700 test pictures, whose difficulty they share, in the rounds of
`choose` (300, 900 and all pictures from four encoders on; the whole error in one round where 300 are all there are).
Checked first: of 1,000 draws of 3, 10 and 20 equal encoders, at most 5 % may have one that is called worse, give or
take two standard errors. Power is printed only where that holds: one encoder of the ten is better by 3, 5 or 8 points.
The rule that picks the best and corrects (Holm) for its tests with the others alone judges the same draws. The script
also counts how often the intervals hold the true value of the encoder that was taken.

Usage: python choose_errors.py [--draws 1000] [--seed 0] [--output choose_errors.json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scipy.stats import binom

from gate_runner.choosing.choice import level_of, limits_of
from paired_scores.best import worse_than_another
from paired_scores.metrics.score import wilson
from paired_scores.paired import holm

ALPHA, PICTURES, BASE = 0.05, 2700, 0.8
Judge = Callable[[np.ndarray, int], list[float]]


def outcomes(rng: np.random.Generator, values: np.ndarray, pictures: int) -> np.ndarray:
    """Right or wrong ``[pictures, encoders]``: of the picture's difficulty one half of the logit's variance."""
    ease = rng.normal(0, 1, (pictures, 1))
    levels = np.array([_level(value) for value in values])
    return (rng.random((pictures, len(values))) < 1 / (1 + np.exp(-(levels + ease)))).astype(float)


def _level(value: float) -> float:
    """The logit at which an encoder is right on so many pictures, over their difficulties."""
    grid = np.linspace(-4, 4, 801)
    weights = np.exp(-grid * grid / 2)
    low, high = -8.0, 8.0
    for _ in range(60):
        middle = (low + high) / 2
        share = float((weights / (1 + np.exp(-(middle + grid)))).sum() / weights.sum())
        low, high = (middle, high) if share < value else (low, middle)
    return low


def ours(right: np.ndarray, seed: int) -> list[float]:
    """The rule of `choose`."""
    return worse_than_another("acc@1", [[column] for column in right.T], seed=seed, permutations=999)


def picked_first(right: np.ndarray, seed: int) -> list[float]:
    """Exact paired tests of the best value with each other one, Holm over these."""
    del seed
    best = int(right.mean(axis=0).argmax())
    others = [column for column in range(right.shape[1]) if column != best]
    wins = np.array([(right[:, best] > right[:, other]).sum() for other in others])
    losses = np.array([(right[:, best] < right[:, other]).sum() for other in others])
    p = [min(1.0, 2 * float(binom.cdf(min(a, b), a + b, 0.5))) for a, b in zip(wins, losses, strict=True)]
    adjusted = dict(zip(others, holm(p), strict=True))
    return [adjusted.get(column, 1.0) for column in range(right.shape[1])]


def chosen(right: np.ndarray, judge: Judge, seed: int) -> tuple[int, set[int]]:
    """The encoder that is taken, and those that are called worse, in the rounds of `choose`."""
    pictures, encoders = right.shape
    limits = [limit for limit in limits_of(encoders, 300, pictures) if limit is not None]
    remaining = list(range(encoders))
    worse: set[int] = set()
    for number, limit in enumerate(limits):
        p = judge(right[:limit, remaining], seed)
        level = level_of(number, len(limits), ALPHA, is_last=number == len(limits) - 1)
        beaten = {encoder for encoder, value in zip(remaining, p, strict=True) if value <= level}
        worse |= beaten
        remaining = [encoder for encoder in remaining if encoder not in beaten]
    return max(remaining, key=lambda encoder: right[:, encoder].mean()), worse


def equal(draws: int, encoders: int, pictures: int, seed: int) -> dict[str, float]:
    """Shares of draws in which an equal encoder is called worse, and in which the taken one's interval misses."""
    rng = np.random.default_rng([seed, encoders, pictures])
    wrong = {"ours": 0, "picked first": 0}
    missed = {"for all": 0, "alone": 0}
    for draw in range(draws):
        right = outcomes(rng, np.full(encoders, BASE), pictures)
        for name, judge in (("ours", ours), ("picked first", picked_first)):
            taken, worse = chosen(right, judge, draw)
            wrong[name] += bool(worse)
            if name == "ours":
                value = right[:, taken].mean()
                for kind, level in (("for all", 1 - ALPHA / encoders), ("alone", 1 - ALPHA)):
                    low, high = wilson(value, pictures, level)
                    missed[kind] += not low <= BASE <= high
    shares = {f"false, {name}": count / draws for name, count in wrong.items()}
    return shares | {f"true value outside the interval {kind}": count / draws for kind, count in missed.items()}


def better(draws: int, encoders: int, gain: float, seed: int) -> dict[str, float]:
    """One encoder is better: how often it is taken, how many others are called worse, and it itself."""
    rng = np.random.default_rng([seed, encoders, round(1000 * gain)])
    values = np.full(encoders, BASE)
    values[0] += gain
    rows: dict[str, float] = {}
    results: dict[str, list[tuple[int, set[int]]]] = {"ours": [], "picked first": []}
    for draw in range(draws):
        right = outcomes(rng, values, PICTURES)
        for name, judge in (("ours", ours), ("picked first", picked_first)):
            results[name].append(chosen(right, judge, draw))
    for name, done in results.items():
        rows[f"taken, {name}"] = float(np.mean([taken == 0 for taken, _ in done]))
        rows[f"others called worse, {name}"] = float(np.mean([len(worse - {0}) / (encoders - 1) for _, worse in done]))
        rows[f"all others called worse, {name}"] = float(
            np.mean([len(worse - {0}) == encoders - 1 for _, worse in done])
        )
        rows[f"itself called worse, {name}"] = float(np.mean([0 in worse for _, worse in done]))
    return rows


def main() -> None:
    """Check, measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "choose_errors.json")
    wanted = parser.parse_args()
    started = time.perf_counter()
    record: dict[str, object] = {
        "alpha": ALPHA, "draws": wanted.draws, "seed": wanted.seed, "pictures": PICTURES,
        "processor": platform.processor() or platform.machine(), "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("numpy", "scipy", "gate-runner", "vision-adapters")},
    }  # fmt: skip
    limit = ALPHA + 2 * (ALPHA * (1 - ALPHA) / wanted.draws) ** 0.5
    false = {}
    for encoders in (3, 10, 20):
        for pictures in (300, PICTURES):
            name = f"{encoders} equal encoders, {pictures} pictures"
            false[name] = equal(wanted.draws, encoders, pictures, wanted.seed)
            print(name, false[name], flush=True)
    record["equal"] = false
    if any(shares["false, ours"] > limit for shares in false.values()):
        sys.exit(f"more than {limit:.3f} of the draws of equal encoders have one that is called worse")
    record["one better of ten"] = {}
    for gain in (0.03, 0.05, 0.08):
        rows = better(max(1, wanted.draws // 5), 10, gain, wanted.seed)
        record["one better of ten"][f"by {gain}"] = rows  # type: ignore[index]
        print(gain, rows, flush=True)
    record["seconds"] = round(time.perf_counter() - started, 1)
    wanted.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
