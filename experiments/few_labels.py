"""Few labels or none: one-shot methods, transduction in seven regimes, calibration, and coverage of sets.

    python experiments/few_labels.py --pictures FOLDER [--label-errors FOLDER] [--batches 60] [--part coverage]

``FOLDER`` has a folder of images for each class, at any depth; scikit-learn's digits are the second real set. The
feature world is made up: 100 classes in 20 groups, images and texts each around a mean of their own, in 512 dimensions;
"frequent" draws classes by Zipf's law, "shifted" has long axes and texts far off, so that zero-shot is poor.
``--label-errors`` takes ``NAME_test_set_pyx.npy`` and ``NAME_test_set_original_labels.npy`` of cleanlab/label-errors:
out-of-sample probabilities of real test sets. Writes results/few_labels.json and .md.

The seven regimes are those of Zanella et al. (CVPR 2025): batches of 64 or 1,000 images with few of the classes, and
all. Intervals are 95 %, Student's, over draws or batches of the gain on zero-shot, paired.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import torch.nn.functional as F
from few_images import features_of, unit
from icinw_few_shot import interval
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from gate_runner.encoders import load_encoder
from paired_scores.metrics import evaluate
from vision_adapters.calibration import calibrate, fit_temperature
from vision_adapters.conformal import ConformalSets, OpenWorld, coverage_of, full_conformal_sets, transport_to_labels
from vision_adapters.tuning import transduce, tune, tuning_data

RESULTS = Path(__file__).parent / "results"
REGIMES = ((64, 1, 4), (64, 2, 10), (64, 5, 25), (1000, 5, 25), (1000, 25, 50), (1000, 50, 100), (10_000, 100, 100))
WORLDS = {"plain": {}, "frequent": {"zipf": True}, "shifted": {"long": 0.6, "off": 0.3}}
CALIBRATION_DRAWS = range(200, 210)
"""Not those of 0 to 9 and 100 to 109, on which the rule for a temperature was chosen."""
METHODS = ("anchored", "ss_text", "ss_text+", "proker", "cross_modal", "gda", "clap", "clap_published", "tip_adapter")


def world(seed: int, *, zipf: bool = False, long: float = 0.3, off: float = 0.25, classes: int = 100) -> list[Tensor]:
    """Return features, labels and texts; a fifth of the images lies in another class of its group."""
    generator = torch.Generator().manual_seed(seed)
    scales = torch.arange(1, 513).float() ** -long
    scales = scales / scales.norm()
    draw = lambda *shape: torch.randn(*shape, generator=generator) * scales  # noqa: E731
    groups, count = max(classes // 5, 1), 20_000
    group = torch.arange(classes) % groups
    centres = 0.5 * (math.sqrt(0.5) * draw(groups, 512)[group] + math.sqrt(0.5) * draw(classes, 512))
    parts = 0.4 * draw(classes, 6, 512)
    frequency = 1 / torch.arange(1, classes + 1).float() if zipf else torch.ones(classes)
    labels = torch.multinomial(frequency, count, replacement=True, generator=generator)
    moved = (labels + groups * torch.randint(1, 5, (count,), generator=generator)) % classes
    place = torch.where(torch.rand(count, generator=generator) < 0.2, moved, labels)
    part = parts[place, torch.randint(6, (count,), generator=generator)]
    widths = (0.7 + 0.6 * torch.rand(classes, generator=generator))[labels, None]
    images = F.normalize(draw(512), dim=0) + centres[place] + part + 0.7 * widths * draw(count, 512)
    texts = F.normalize(draw(512), dim=0) + centres + off * draw(classes, 512)
    return [F.normalize(images, dim=1), labels, F.normalize(texts, dim=1)]


def regimes(batches: int) -> list[dict[str, object]]:
    """Return accuracy by regime and world: zero-shot, and what others gain on it."""
    rows = []
    for name, options in WORLDS.items():
        x, y, texts = world(0, **options)
        generator = torch.Generator().manual_seed(1)
        for size, least, most in REGIMES:
            hits: dict[str, list[float]] = {}
            fallbacks = 0
            for _ in range({64: batches, 1000: max(batches // 6, 2)}.get(size, 2)):
                present = int(torch.randint(least, most + 1, (1,), generator=generator))
                classes = torch.randperm(100, generator=generator)[:present]
                pool = torch.isin(y, classes).nonzero().flatten()
                rows_of = pool[torch.randperm(len(pool), generator=generator)[:size]]
                guesses = {"zero-shot": (x[rows_of] @ texts.T).argmax(1)}
                for method in ("stata", "transclip"):
                    free = transduce(x[rows_of], texts, method=method, guard=False)
                    guesses[f"{method}, no guard"] = free.probabilities.argmax(1)
                guarded = transduce(x[rows_of], texts)
                fallbacks += guarded.fallback != ""
                guesses["stata"] = guarded.probabilities.argmax(1)
                for method, guess in guesses.items():
                    hits.setdefault(method, []).append(100 * float((guess == y[rows_of]).double().mean()))
            plain = np.array(hits["zero-shot"])
            row: dict[str, object] = {"world": name, "batch": size, "classes": f"{least}-{most}"}
            row |= {"zero-shot": float(plain.mean()), "fallbacks": fallbacks / len(plain)}
            for method, values in hits.items():
                if method != "zero-shot":
                    row[method] = interval((np.array(values) - plain).tolist())
            ahead = np.array(hits["stata"]) - np.array(hits["transclip, no guard"])
            row["stata on transclip"] = interval(ahead.tolist())
            rows.append(row)
            print(row, flush=True)
    return rows


def few_shots(digits: tuple[Tensor, Tensor, Tensor]) -> list[dict[str, object]]:
    """Return what methods gain on zero-shot at few shots, over twenty draws."""
    rows = []
    for name in ("plain", "shifted", "digits, micro-clip"):
        for shots in (1, 4):
            gains: dict[str, list[float]] = {}
            zero = []
            for seed in range(20):
                x, y, texts = digits if name.startswith("digits") else world(seed, classes=10, **WORLDS[name])
                order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
                shown = torch.cat([order[y[order] == label][:shots] for label in range(10)])
                tested = order[~torch.isin(order, shown)]
                unseen, tested = tested[:240], tested[240:1240]
                data = tuning_data(x[shown], y[shown], class_embeddings=texts)
                zero.append(accuracy(tune(data, "zero_shot").scores(x[tested]), y[tested]))
                heads = {method: tune(data, method) for method in METHODS}
                heads |= {
                    f"{m} + 240": tune(data, m, unlabelled=x[unseen]) for m in ("stata", "ss_text_u", "transclip")
                }
                for method, tuned in heads.items():
                    gains.setdefault(method, []).append(accuracy(tuned.scores(x[tested]), y[tested]) - zero[-1])
            row = {"data": name, "shots": shots, "zero-shot": float(np.mean(zero))}
            rows.append(row | {method: interval(values) for method, values in gains.items()})
            print(rows[-1], flush=True)
    return rows


def accuracy(scores: Tensor, y: Tensor) -> float:
    """Return accuracy in points."""
    return 100 * float((scores.argmax(1) == y).double().mean())


def calibration(sets: dict[str, tuple[np.ndarray, np.ndarray]], errors: Path | None) -> list[dict[str, object]]:
    """Return calibration errors of unseen images before and after, over ten draws."""
    rows = []
    for name, (x, y) in sets.items():
        for shots, method in ((5, "anchored"), (20, "anchored"), (20, "logistic")):
            values = []
            for seed in CALIBRATION_DRAWS:
                rng = np.random.default_rng(seed)
                order = rng.permutation(len(x))
                shown = np.concatenate([order[y[order] == label][:shots] for label in np.unique(y)])
                rest = np.setdiff1d(order, shown)
                data = tuning_data(torch.from_numpy(x[shown]), torch.from_numpy(y[shown]))
                tuned = tune(data, method)
                scores, true = tuned.scores(torch.from_numpy(x[rest])), torch.from_numpy(y[rest])
                values.append(before_and_after(scores, true, calibrate(data, method, tuned=tuned).temperature))
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
                fitted = fit_temperature(p[order[:count]].log(), y[order[:count]])
                values.append(before_and_after(p[order[count:]].log(), y[order[count:]], fitted))
            rows.append({"data": f"{name} (label-errors)", "head": "as given", "labels": str(count), **mean_of(values)})
            print(rows[-1], flush=True)
    return rows


def before_and_after(scores: Tensor, y: Tensor, temperature: float) -> list[float]:
    """Return calibration error, Brier score and log-loss before and after."""
    probabilities = [scores.double().softmax(1), (scores.double() / temperature).softmax(1)]
    names = ("calibration_error", "brier", "log_loss")
    return [evaluate(name, p.clamp(0, 1), y, resamples=0).value for name in names for p in probabilities]


def mean_of(values: list[list[float]]) -> dict[str, float]:
    """Return their means, by name."""
    names = ("error before", "error after", "Brier before", "Brier after", "log-loss before", "log-loss after")
    return {name: float(value) for name, value in zip(names, np.mean(values, axis=0), strict=True)}


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
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--part", action="append", help="what to measure again; all parts by default")
    options = parser.parse_args()
    torch.set_num_threads(1)
    files = sorted(path for path in options.pictures.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    names = np.unique([path.parent.name for path in files], return_inverse=True)[1].astype(np.int64)
    digits = load_digits()
    drawn = [Image.fromarray((image * 15.9).astype(np.uint8)).convert("RGB") for image in digits.images]
    pictures = [Image.open(path).convert("RGB") for path in files]
    sets = {
        f"{options.pictures.name}, lite:0": (features_of("lite:0", pictures), names),
        "digits, pixels": (digits.data.astype(np.float32), digits.target.astype(np.int64)),
    }
    small = load_encoder("micro-clip")
    with torch.no_grad():
        texts = torch.as_tensor(small.encode_text([f"the digit {name}" for name in range(10)])).float()
    of_digits = torch.from_numpy(features_of("micro-clip", drawn)), torch.from_numpy(sets["digits, pixels"][1]), texts
    parts = {
        "seconds": timed,
        "regimes": lambda: regimes(options.batches),
        "few shots": lambda: few_shots(of_digits),
        "calibration": lambda: calibration(sets, options.label_errors),
        "coverage": lambda: coverage(sets),
    }
    file = RESULTS / "few_labels.json"
    report = json.loads(file.read_text()) if file.exists() else {}
    for part in options.part or parts:
        report |= {part: parts[part]()} | ({"batches": options.batches} if part == "regimes" else {})
        file.write_text(json.dumps(report, indent=1) + "\n")
    (RESULTS / "few_labels.md").write_text(as_markdown(report))


def as_markdown(report: dict[str, object]) -> str:
    """Return the tables; pairs are an interval's ends."""
    lines = [
        "# Few labels or none",
        "",
        f"Printed by `experiments/few_labels.py`, {report['batches']} batches of 64. Gains are points of accuracy on",
        "zero-shot with their 95 % interval. Feature worlds are made up; digits and images are real.",
        "CPU seconds for 10,000 images and 100 classes on one thread: "
        + ", ".join(f"{name} {value:.1f}" for name, value in report["seconds"].items())
        + ".",
    ]
    for part in ("regimes", "few shots", "calibration", "coverage"):
        rows = report.get(part) or [{}]
        assert isinstance(rows, list)
        heads = list(rows[0])
        lines += ["", f"## {part.capitalize()}", "", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        lines += ["| " + " | ".join(_cell(row[head]) for head in heads) + " |" for row in rows]
    return "\n".join([*lines, ""])


def _cell(value: object) -> str:
    if isinstance(value, list | tuple):
        middle, half = value
        return f"{middle:+.1f} ± {half:.1f}"
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)


if __name__ == "__main__":
    main()
