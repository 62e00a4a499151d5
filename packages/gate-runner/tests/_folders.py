"""Run folders with made-up results, written by the product's own writer: readers are tested without computing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gate_runner.runs.folder import RunFolder
from gate_runner.runs.results import SCHEMA, Result, Score
from paired_scores.metrics import METRICS, score_outcomes

TASKS = {
    "cifar100": ("image-classification", "acc@1"),
    "digits": ("image-classification", "acc@1"),
    "ade20k": ("segmentation", "miou"),
    "acdc": ("medical-segmentation", "dice"),
    "mini": ("few-shot", "accuracy"),
    "iwildcam": ("video-regression", "mae"),
    "clevr-math": ("relational", "acc@1"),
}


def outcomes(metric: str, skill: float, *, samples: int = 120, seed: int = 0) -> np.ndarray:
    """Per-sample outcomes of an encoder of some skill in 0 to 1; the samples depend on the metric alone."""
    shared = np.random.default_rng(sum(metric.encode()))
    own = np.random.default_rng([seed, round(1000 * skill)])
    ease = shared.random(samples)
    if metric in ("miou", "dice"):
        true = shared.integers(10, 90, (samples, 4))
        both = own.binomial(true, skill)
        return np.stack([both, both + own.poisson(20, (samples, 4)), true], axis=1).astype(float)
    if metric == "mae":
        return np.abs(own.normal(0, 1.5 - skill, samples))
    return (own.random(samples) < 0.5 * skill + 0.5 * ease * skill).astype(float)


def result(
    name: str, skill: float, *, encoder: str = "a", seed: int = 0, samples: int = 120, **changes: Any
) -> tuple[Result, np.ndarray]:
    """A finished result and its outcomes."""
    benchmark = name.removeprefix("micro/")
    task, metric = TASKS.get(benchmark, ("image-classification", "acc@1"))
    sample_scores = outcomes(metric, skill, samples=samples, seed=seed)
    estimate = score_outcomes(metric, sample_scores, resamples=100)
    steps = 300
    values: dict[str, Any] = {
        "benchmark": benchmark,
        "name": name,
        "task": task,
        "source": "micro" if name.startswith("micro/") else "built-in",
        "seed": seed,
        "status": "ok",
        "note": "synthetic stand-in" if name.startswith("micro/") else "",
        "encoder": {"spec": encoder},
        "scores": (Score(metric, METRICS[metric].direction, estimate.value, estimate.low, estimate.high, 0.1),),
        "data": {"train": 10, "validation": 10, "test": samples, "classes": 4, "sha256": f"{benchmark}-digest"},
        "training": {
            "steps": steps,
            "chosen_step": 200,
            "validation": [{"step": step, metric: skill * step / steps} for step in range(50, steps + 1, 50)],
        },
        "seconds": {"data": 1.0, "encode": 2.5, "train": 3.0, "test": 0.5, "total": 7.0},
        "memory": {"peak_bytes": 1_500_000_000},
        "energy": {"joules": {}, "unmeasured": {"cpu": "no counters", "gpu": "no GPU"}},
    }
    return Result(**{**values, **changes}), sample_scores


def write_run(
    path: Path,
    skills: Mapping[str, float],
    *,
    encoder: str = "a",
    seeds: Sequence[int] = (0,),
    samples: int = 120,
    **changes: Any,
) -> Path:
    """A run folder with one result per name and seed."""
    folder = RunFolder(path)
    folder.claim({"encoder": {"spec": encoder, "parameters": 1000}, "limit": None, "schema": SCHEMA}, {"command": []})
    for name, skill in skills.items():
        for seed in seeds:
            run_result, sample_scores = result(name, skill, encoder=encoder, seed=seed, samples=samples, **changes)
            folder.save(run_result, sample_scores if run_result.status == "ok" else None)
    return path
