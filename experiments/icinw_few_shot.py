"""Published few-shot methods side by side on micro/icinw, from features that are encoded once.

    python experiments/icinw_few_shot.py --output FOLDER
    python experiments/icinw_few_shot.py --output FOLDER --methods anchored clap prolip --seeds 3

Seven data sets (six of the micro world, and scikit-learn's digits), micro-clip, class texts without knowledge; 1, 2, 5
and 20 images per class by ELEVATER's rule, ten draws. Each method keeps to its paper's protocol as its docstring in
`vision_adapters.tuning` says; `random` is our default without texts. Methods that take one label per image leave the
set of several labels out. The interval is Student's for the mean over draws. Ours counts as first or level where its
mean is not below the lower end of the best published method's interval, zero-shot's without width included; beside that
stand the same count against few-shot methods alone, and in how many cells no published method is better on the same
draws (paired, 95 %, not corrected for their number).
Ours, LDA and `random` validate as `tuning_data` does by default, by five folds here; the other methods that validate
hold out a fifth from five images per class on.

Base to new: half of the classes train, all are tested in their own half. A method that moves the features (ProLIP)
takes them to new classes; all others leave those to the texts, so that their new classes are zero-shot.

FOLDER holds features and one line per cell, so that a run that was broken off goes on. Writes
results/icinw_few_shot.json and results/icinw_few_shot.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.nn.functional as F
from scipy.stats import t as student

from gate_runner.benchmarks import BENCHMARKS, PACKS, DataRequest
from gate_runner.tasks import Job
from gate_runner.tasks.elevater.heads import features_of
from gate_runner.tasks.elevater.texts import class_texts
from gate_runner.tasks.features import Embedder
from gate_runner.tasks.variants import of_classification
from paired_scores.metrics import evaluate
from vision_adapters.fewshot import elevater_indices
from vision_adapters.tuning import HeldOut, Tuned, TuningData, tune, tuning_data
from vision_features.encoders import load_encoder

RESULTS = Path(__file__).parent / "results"
OURS = "anchored"
METHODS = (
    "zero_shot", "anchored", "random", "clap", "lp++", "tip_adapter", "gda", "lda", "prolip", "logistic", "elevater",
)  # fmt: skip
SHOTS = (1, 2, 5, 20)
FOLDED = (OURS, "random", "lda", "zero_shot")
"""Methods that validate by the default's five folds."""


class MappedHead(torch.nn.Module):
    r"""Scores $s \cos(x A, v_c)$ with A the mapping [d, d] and the class texts v at length 1."""

    def __init__(self, mapping: torch.Tensor, texts: torch.Tensor, scale: float) -> None:
        super().__init__()
        self.mapping = torch.nn.Parameter(mapping.clone())
        self.register_buffer("texts", texts)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of each class."""
        return self.scale * F.normalize(x @ self.mapping, dim=1) @ self.get_buffer("texts").T


def tune_prolip(data: TuningData) -> Tuned:
    r"""Train a square matrix on the features, held near the identity; the class texts stay.

    The mean cross-entropy of $s\cos(xA, v_c)$ plus $\lambda \lVert A - I\rVert_F^2$ with $\lambda$ the inverse of the
    images per class; 300 steps of Adam on all samples, at a rate that falls from .001 along a cosine. Nothing is
    validated.

    Source:
        Fahes et al., Fine-tuning CLIP's last visual projector (2024): the objective and its parameter-free penalty.
        Its matrix is the encoder's own projection; after it stands one here, which is the same family of functions on
        projected features. Its learning rates are for that matrix's scale; ours is for the identity's.
    """
    if data.several:
        raise ValueError("prolip takes one label per sample")
    texts = F.normalize(data.class_embeddings, dim=1)
    unit, labels = F.normalize(data.features, dim=1), data.labels
    penalty = data.classes / len(labels)
    start = torch.eye(unit.shape[1], dtype=unit.dtype)
    head = MappedHead(start, texts, data.logit_scale)
    optimiser = torch.optim.Adam(head.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 300)
    for _ in range(300):
        optimiser.zero_grad()
        loss = F.cross_entropy(head(unit), labels) + penalty * (head.mapping - start).square().sum()
        torch.autograd.backward(loss)
        optimiser.step()
        schedule.step()
    return Tuned("prolip", {"penalty": penalty}, None, head.eval(), (), data.metric)


def tuned_by(method: str, data: TuningData) -> Tuned:
    """A head by a method of the package, or by ProLIP, which is a peer of it alone."""
    return tune_prolip(data) if method == "prolip" else tune(data, method)


def cells(folder: Path, methods: list[str], seeds: int, shots: list[int]) -> dict[str, float | None]:
    """Fill what is missing, a line for each cell."""
    path = folder / "cells.jsonl"
    collected: dict[str, float | None] = {}
    if path.exists():
        collected = dict(json.loads(line) for line in path.read_text().splitlines())
    encoder = load_encoder("micro-clip", device="cpu")
    embed = Embedder(encoder.encode_text)
    for benchmark in map(BENCHMARKS.__getitem__, PACKS["micro/icinw"]):
        point = of_classification(benchmark, "5-shot.frozen.language-2p.none")
        data = point.load(next(iter(benchmark.sources)), DataRequest(size=encoder.image_size))
        metric = point.metrics[0]
        features = features_of(Job(encoder, point, data))
        train, test = features.seen("2p", anchored=True)
        texts = class_texts(benchmark.id, data.classes, "none", embed).weights
        assert texts is not None
        scale = encoder.logit_scale or 100.0
        for number in shots:
            for seed in range(seeds):
                rows = elevater_indices(features.train_labels, number, seed).indices
                for method in methods:
                    key = f"{benchmark.id} {number} {seed} {method}"
                    if key in collected:
                        continue
                    drawn = tuning_data(
                        train[rows], features.train_labels[rows], classes=len(texts), logit_scale=scale, metric=metric,
                        class_embeddings=None if method == "random" else texts, seed=seed,
                        validation="auto" if method in FOLDED or number < 5 else "shuffled",
                    )  # fmt: skip
                    try:
                        tuned = tuned_by("anchored" if method == "random" else method, drawn)
                        value = HeldOut(test, features.test_labels).score(tuned, resamples=0).value
                    except ValueError:  # it takes one label per image, or needs more images
                        value = None
                    collected[key] = value
                    with path.open("a") as file:
                        file.write(json.dumps([key, value]) + "\n")
        if "prolip" in methods and features.train_labels.ndim == 1:
            _base_to_new(
                collected,
                path,
                benchmark.id,
                (train, test),
                (features.train_labels, features.test_labels),
                texts,
                scale,
                seeds,
            )
    return collected


def _base_to_new(
    scores: dict[str, float | None],
    path: Path,
    name: str,
    features: tuple[torch.Tensor, torch.Tensor],
    labels: tuple[torch.Tensor, torch.Tensor],
    texts: torch.Tensor,
    scale: float,
    seeds: int,
) -> None:
    half = (len(texts) + 1) // 2
    if half < 2 or len(texts) - half < 2:
        return
    base, new = labels[1] < half, labels[1] >= half
    for seed in range(min(3, seeds)):
        own = (labels[0] < half).nonzero().flatten()
        rows = own[torch.from_numpy(elevater_indices(labels[0][own], 5, seed).indices)]
        data = tuning_data(
            features[0][rows], labels[0][rows], classes=half, class_embeddings=texts[:half], logit_scale=scale
        )
        for method in ("zero_shot", OURS, "clap", "prolip"):
            key = f"{name} base-to-new {seed} {method}"
            if key in scores:
                continue
            tuned = tuned_by(method, data)
            moved = features[1][new]
            if method == "prolip":
                moved = F.normalize(moved, dim=1) @ tuned.head.mapping.detach()
            values = [
                evaluate("accuracy", tuned.scores(features[1][base]), labels[1][base], resamples=0).value,
                evaluate(
                    "accuracy", F.normalize(moved, dim=1) @ texts[half:].T, labels[1][new] - half, resamples=0
                ).value,
            ]
            scores[key] = 2 * values[0] * values[1] / max(sum(values), 1e-9)
            with path.open("a") as file:
                file.write(json.dumps([key, scores[key]]) + "\n")


def interval(values: list[float]) -> tuple[float, float]:
    """Mean and half the width of its 95 % interval over draws."""
    if len(values) < 2:
        return values[0], math.nan
    width = student.ppf(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values), float(width)


def tabulate(scores: dict[str, float | None]) -> tuple[dict[str, Any], str]:
    """Means and intervals of each data set and number of images, and how often ours is first or level."""
    groups: dict[tuple[str, str], dict[str, list[float]]] = {}
    for key, value in scores.items():
        name, shots, _, method = key.split()
        if value is not None:
            groups.setdefault((name, shots), {}).setdefault(method, []).append(value)
    methods = [method for method in METHODS if any(method in group for group in groups.values())]
    lines = [f"| data set | shots | {' | '.join(methods)} | ours |", "|---|---|" + "---|" * (len(methods) + 1)]
    level, trained, counted, table = 0, 0, 0, {}
    for (name, shots), group in sorted(groups.items(), key=lambda item: (item[0][0], len(item[0][1]), item[0][1])):
        means = {method: interval(values) for method, values in group.items()}
        others = {m: v for m, v in means.items() if m not in (OURS, "random")}
        text = ""
        if OURS in means and set(others) - {"zero_shot"} and shots != "base-to-new":
            best, first = _first(means[OURS][0], others)
            level, counted, text = level + first, counted + 1, "yes" if first else f"no ({best})"
            trained += _first(means[OURS][0], {m: v for m, v in others.items() if m != "zero_shot"})[1]
        row = [f"{100 * means[m][0]:.1f} ± {100 * means[m][1]:.1f}" if m in means else "–" for m in methods]
        lines.append(f"| {name} | {shots} | {' | '.join(row)} | {text} |")
        table[f"{name} {shots}"] = {method: list(value) for method, value in means.items()}
    better = {key: [m for m in listed if m not in (OURS, "random") and _above(listed[m], listed[OURS])]
              for key, listed in _by_draw(scores).items() if OURS in listed and key[1] != "base-to-new"}  # fmt: skip
    averages = []
    for shots in map(str, SHOTS):
        gaps: dict[str, list[float]] = {"zero_shot": [], "random": []}
        for other, listed in gaps.items():
            for seed in range(100):
                pairs = [
                    (scores.get(f"{name} {shots} {seed} {OURS}"), scores.get(f"{name} {shots} {seed} {other}"))
                    for name, number in groups
                    if number == shots
                ]
                if pairs and all(a is not None and b is not None for a, b in pairs):
                    listed.append(statistics.fmean((a or 0.0) - (b or 0.0) for a, b in pairs))
            if listed:
                mean, width = interval(listed)
                averages.append(
                    f"- {shots} per class, mean over data sets: ours {100 * mean:+.2f} ± {100 * width:.2f} points "
                    f"against {other}; {sum(number == shots for _, number in groups)} data sets, {len(listed)} draws"
                )
    lost = {" ".join(key): names for key, names in sorted(better.items()) if names}
    share = ""
    if counted:
        share = (
            f"Ours is first or level in {level} of {counted} cells, and in {trained} where zero-shot, which learns "
            "from no image, is left out. On the same draws no published method is better "
        )
        share += f"in {counted - len(lost)}; " + "; ".join(f"{key}: {', '.join(m)}" for key, m in lost.items()) + "."
    averages += _over_sets(scores)
    figures = {
        "cells": table,
        "level": level,
        "level without zero-shot": trained,
        "counted": counted,
        "better on the same draws": lost,
    }
    return figures, "\n".join([*lines, "", share, "", *averages, ""])


def _first(ours: float, others: dict[str, tuple[float, float]]) -> tuple[str, bool]:
    """The best of other methods, and whether ours is not below the lower end of its interval."""
    best = max(others, key=lambda method: others[method][0])
    mean, width = others[best]
    return best, ours >= mean - (0.0 if math.isnan(width) else width)


def _by_draw(scores: dict[str, float | None]) -> dict[tuple[str, str], dict[str, dict[str, float]]]:
    """Scores by data set and images per class, method, and draw."""
    cells: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for key, value in scores.items():
        name, shots, draw, method = key.split()
        if value is not None:
            cells.setdefault((name, shots), {}).setdefault(method, {})[draw] = value
    return cells


def _above(scores: dict[str, float], other: dict[str, float]) -> bool:
    """Whether the interval of the mean difference on common draws lies above zero."""
    gaps = [scores[draw] - other[draw] for draw in scores if draw in other]
    if len(gaps) < 3:
        return False
    mean, width = interval(gaps)
    return mean - width > 0


def _over_sets(scores: dict[str, float | None]) -> list[str]:
    """Means over the data sets with one label per image, method by method."""
    cells, lines = _by_draw(scores), []
    for shots in map(str, SHOTS):
        here = {name: listed for (name, number), listed in cells.items() if number == shots and "clap" in listed}
        methods = [m for m in METHODS if here and all(m in listed for listed in here.values())]
        means = {m: statistics.fmean(statistics.fmean(draws[m].values()) for draws in here.values()) for m in methods}
        if means:
            text = ", ".join(f"{m} {100 * value:.1f}" for m, value in sorted(means.items(), key=lambda p: -p[1]))
            lines.append(f"- {shots} per class, means over the {len(here)} data sets with one label per image: {text}")
    return lines


def main() -> None:
    """Fill, and write both files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, required=True, help="folder of features and cells")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--shots", nargs="+", type=int, default=list(SHOTS))
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    scores = cells(args.output, args.methods, args.seeds, args.shots)
    table, text = tabulate(scores)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "icinw_few_shot.json").write_text(json.dumps(table, indent=1) + "\n")
    (RESULTS / "icinw_few_shot.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
