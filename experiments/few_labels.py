"""Few labels or none: calibration, coverage of sets, and the time of transduction.

    python experiments/few_labels.py --pictures FOLDER [--label-errors FOLDER] [--part coverage]

``FOLDER`` has a folder of images for each class, at any depth; scikit-learn's digits are the second real set. The
feature world is made up (`feature_world.py`).
``--label-errors`` takes ``NAME_test_set_pyx.npy`` and ``NAME_test_set_original_labels.npy`` of cleanlab/label-errors:
out-of-sample probabilities of real test sets. Writes results/few_labels.json and .md.

"floor" is the calibration error that right probabilities would have on as many test images, "debiased" is the error
after calibration less what noise adds to it (`paired_scores.metrics.calibration_error`). What methods gain on zero-shot
is measured by `few_labels_shots.py` and `few_labels_regimes.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from feature_world import world
from few_images import features_of, unit
from icinw_few_shot import interval
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from paired_scores.metrics import calibration_error, evaluate
from vision_adapters.calibration import SoftmaxMap, calibrate, fit_softmax_map
from vision_adapters.conformal import ConformalSets, OpenWorld, coverage_of, full_conformal_sets, transport_to_labels
from vision_adapters.tuning import transduce, tune, tuning_data

RESULTS = Path(__file__).parent / "results"
CALIBRATION_DRAWS = range(400, 410)
"""Not those of 0 to 9, 100 to 109, 200 to 209 and 300 to 307, on which temperature, share and scale were chosen."""
HEADS = ((5, "anchored"), (20, "anchored"), (20, "logistic"))
"""Images per class, and method."""


def calibration(sets: dict[str, tuple[np.ndarray, np.ndarray]], errors: Path | None) -> list[dict[str, object]]:
    """Return calibration errors of unseen images before and after, over ten draws."""
    rows = []
    for name, (x, y) in sets.items():
        for shots, method in HEADS:
            values = []
            for seed in CALIBRATION_DRAWS:
                rng = np.random.default_rng(seed)
                order = rng.permutation(len(x))
                shown = np.concatenate([order[y[order] == label][:shots] for label in np.unique(y)])
                rest = np.setdiff1d(order, shown)
                data = tuning_data(torch.from_numpy(x[shown]), torch.from_numpy(y[shown]))
                tuned = tune(data, method)
                scores, true = tuned.scores(torch.from_numpy(x[rest])), torch.from_numpy(y[rest])
                fitted = calibrate(data, method, tuned=tuned)
                values.append(before_and_after(scores, true, SoftmaxMap(fitted.temperature, fitted.uniform)))
            rows.append({"data": name, "head": method, "labels": f"{shots} a class", **mean_of(values)})
            print(rows[-1], flush=True)
    for file in sorted(errors.glob("*_pyx.npy")) if errors else ():
        name = file.name.partition("_test")[0]
        p = torch.from_numpy(np.load(file)).double().clamp_min(1e-12)
        y = torch.from_numpy(np.load(file.with_name(file.name.replace("pyx", "original_labels"))).astype(np.int64))
        for count in (100, 1000):
            values = []
            for seed in CALIBRATION_DRAWS:
                order = torch.randperm(len(p), generator=torch.Generator().manual_seed(seed))
                fitted_map = fit_softmax_map(p[order[:count]].log(), y[order[:count]])
                values.append(before_and_after(p[order[count:]].log(), y[order[count:]], fitted_map))
            rows.append({"data": f"{name} (label-errors)", "head": "as given", "labels": str(count), **mean_of(values)})
            print(rows[-1], flush=True)
    return rows


def before_and_after(scores: Tensor, y: Tensor, fitted: SoftmaxMap) -> list[float]:
    """Return calibration error, Brier score and log-loss before and after, the floor and the debiased error."""
    probabilities = [scores.double().softmax(1), fitted.probabilities(scores.double())]
    names = ("calibration_error", "brier", "log_loss")
    values = [evaluate(name, p.clamp(0, 1), y, resamples=0).value for name in names for p in probabilities]
    error = calibration_error(probabilities[1].clamp(0, 1), y)
    return [*values, error.floor, error.debiased]


def mean_of(values: list[list[float]]) -> dict[str, object]:
    """Return their means by name, the halves of two 95 % intervals over draws, and the draws."""
    names = ("error before", "error after", "Brier before", "Brier after", "log-loss before", "log-loss after")
    means = {
        name: float(value) for name, value in zip((*names, "floor", "debiased"), np.mean(values, axis=0), strict=True)
    }
    for place, name in enumerate(("± before", "± after")):
        means[name] = interval([row[place] for row in values])[1]
    order = ("error before", "± before", "error after", "± after", "floor", "debiased", *names[2:])
    return {"draws": f"{CALIBRATION_DRAWS[0]} to {CALIBRATION_DRAWS[-1]}"} | {name: means[name] for name in order}


def coverage(sets: dict[str, tuple[np.ndarray, np.ndarray]]) -> list[dict[str, object]]:
    """Return coverage and size of sets at 90 % over a hundred draws."""
    rows = []
    scored: dict[str, list[tuple[Tensor, Tensor, Tensor, Tensor]]] = {}
    x, y, texts = world(7, classes=20, zipf=True)
    labels = y
    for seed in range(100):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
        near, far = order[:200], order[200:1200]
        scored.setdefault("zero-shot, made-up features", []).append(
            (100 * x[near] @ texts.T, labels[near], 100 * x[far] @ texts.T, labels[far])
        )
    for name, (features, classes) in sets.items():
        for seed in range(100):
            order = np.random.default_rng(seed).permutation(len(features))
            third = len(order) // 3
            rows_of = [unit(features[part]) for part in (order[:third], order[third : 2 * third], order[2 * third :])]
            true = [
                torch.from_numpy(classes[part])
                for part in (order[:third], order[third : 2 * third], order[2 * third :])
            ]
            head = LogisticRegression(C=10, max_iter=200).fit(rows_of[0], true[0])
            near, far = (torch.from_numpy(head.decision_function(part)) for part in rows_of[1:])
            scored.setdefault(f"{name}, logistic regression", []).append((near, true[1], far, true[2]))
    for name, draws in scored.items():
        results: dict[str, list[tuple[float, float]]] = {}
        for number, (near, near_y, far, far_y) in enumerate(draws):
            noise = torch.rand(len(near) + len(far), generator=torch.Generator().manual_seed(number)).double()
            ends = len(near)
            tables = {"": (near.double().softmax(1), far.double().softmax(1))}
            tables["Conf-OT, "] = transport_to_labels(near.double(), far.double(), near_y)
            for how, (p, q) in tables.items():
                for kind in ("lac", "aps", "raps"):
                    fitted = ConformalSets.fit(p, near_y, kind, noise=noise[:ends])
                    done = coverage_of(fitted.sets(q, 0.9, noise=noise[ends:]), far_y, 0.9)
                    results.setdefault(how + kind.upper(), []).append((done.covered, done.size))
            none = OpenWorld.fit(near).none_of_these(far, 0.9).double().mean()
            results.setdefault("known images kept", []).append((1 - float(none), 0.0))
        for method, values in results.items():
            covered, size = np.mean(values, axis=0)
            rows.append({"data": name, "sets": method, "coverage": 100 * float(covered), "size": float(size) or None})
            print(rows[-1], flush=True)
    full = []
    for seed in range(100):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
        chosen = full_conformal_sets(x[order[:160]], labels[order[:160]], x[order[160:360]], texts, 0.9)
        done = coverage_of(chosen, labels[order[160:360]], 0.9)
        full.append((done.covered, done.size))
    covered, size = np.mean(full, axis=0)
    rows.append({"data": "made-up features", "sets": "full conformal SS-Text, 160 labels, no calibration split",
                 "coverage": 100 * float(covered), "size": float(size)})  # fmt: skip
    print(rows[-1], flush=True)
    return rows


def timed() -> dict[str, float]:
    """Return CPU seconds of 10,000 images and 100 classes in 512 dimensions, one thread."""
    x, _, texts = world(0)
    seconds = {}
    for method in ("stata", "transclip"):
        start = time.process_time()
        transduce(x[:10_000], texts, method=method)
        seconds[method] = time.process_time() - start
    return seconds


def main() -> None:
    """Measure all parts, and write the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pictures", type=Path, required=True)
    parser.add_argument("--label-errors", type=Path)
    parser.add_argument("--part", action="append", help="what to measure again; all parts by default")
    options = parser.parse_args()
    torch.set_num_threads(1)
    files = sorted(path for path in options.pictures.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    names = np.unique([path.parent.name for path in files], return_inverse=True)[1].astype(np.int64)
    digits = load_digits()
    pictures = [Image.open(path).convert("RGB") for path in files]
    sets = {
        f"{options.pictures.name}, lite:0": (features_of("lite:0", pictures), names),
        "digits, pixels": (digits.data.astype(np.float32), digits.target.astype(np.int64)),
    }
    parts = {
        "seconds": timed,
        "calibration": lambda: calibration(sets, options.label_errors),
        "coverage": lambda: coverage(sets),
    }
    file = RESULTS / "few_labels.json"
    report = json.loads(file.read_text()) if file.exists() else {}
    for part in options.part or parts:
        report |= {part: parts[part]()}
        file.write_text(json.dumps(report, indent=1) + "\n")
    (RESULTS / "few_labels.md").write_text(as_markdown(report))


def as_markdown(report: dict[str, Any]) -> str:
    """Return the tables; pairs are an interval's ends."""
    lines = [
        "# Few labels or none",
        "",
        "Printed by `experiments/few_labels.py`. Feature worlds are made up; digits and images are real.",
        "Floor: what right probabilities would have on as many images.",
        "Gains of methods: few_labels_shots.md, few_labels_regimes.md.",
        "CPU seconds for 10,000 images and 100 classes on one thread: "
        + ", ".join(f"{name} {value:.1f}" for name, value in report["seconds"].items())
        + ".",
    ]
    for part in ("calibration", "coverage"):
        rows = report.get(part) or [{}]
        assert isinstance(rows, list)
        heads = list(rows[0])
        lines += ["", f"## {part.capitalize()}", "", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        lines += ["| " + " | ".join(_cell(row.get(head)) for head in heads) + " |" for row in rows]
    return "\n".join([*lines, ""])


def _cell(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)


if __name__ == "__main__":
    main()
