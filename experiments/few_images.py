"""Is the default head of few images, without texts, ever behind a nearest mean or a regression on unit rows?

    python experiments/few_images.py --pictures FOLDER [--encoder lite:0 --encoder micro-clip] [--draws 10] [--first 0]

``FOLDER`` has a folder of images for each class, at any depth; scikit-learn's digits are the second set. Encoders are
frozen. Each draw takes 1, 2, 3, 5, 20 and 100 images of each class where there are 20 more, and scores on at most 600
others. The features are scored as they come and under one random rotation, which changes none of the rivals.

Rivals: the nearest class mean of unit rows, `LogisticRegression` at its defaults on unit rows, and from 5 images on
the closed-form discriminant with a ridge of one trace. The rule, fixed before the figures were taken: no 95 % interval
(Student's, over draws of the same images) of the default less a rival lies below 0. Draws are seeds from ``--first``
on: those from 100 on were not looked at while the default was made. Writes results/few_images.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from icinw_few_shot import interval
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from vision_adapters import HeadClassifier
from vision_features.encoders import load_encoder

RESULTS = Path(__file__).parent / "results"
SHOTS, LEFT, TESTED = (1, 2, 3, 5, 20, 100), 20, 600
Array = np.ndarray
Predict = Callable[[Array, Array, Array], Array]


def unit(rows: Array) -> Array:
    """Return rows at length 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-12)


def nearest_mean(x: Array, y: Array, test: Array) -> Array:
    """Return the class whose mean of unit rows has the largest cosine."""
    classes = np.unique(y)
    means = unit(np.stack([unit(x)[y == name].mean(0) for name in classes]))
    return classes[(unit(test) @ means.T).argmax(1)]


def regression(x: Array, y: Array, test: Array) -> Array:
    """Return the classes that logistic regression on unit rows predicts."""
    return np.asarray(LogisticRegression(max_iter=5000).fit(unit(x), y).predict(unit(test)))


def discriminant(x: Array, y: Array, test: Array) -> Array:
    """Return the classes of the closed form on unit rows."""
    x, classes = unit(x).astype(np.float64), np.unique(y)
    means = np.stack([x[y == name].mean(0) for name in classes])
    within = x - means[np.searchsorted(classes, y)]
    trace = (within**2).sum() / (len(x) - 1)
    weight = np.linalg.solve(within.T @ within + trace * np.eye(x.shape[1]), means.T).T
    return classes[(unit(test) @ weight.T - 0.5 * (means * weight).sum(1)).argmax(1)]


RIVALS: dict[str, Predict] = {"nearest mean": nearest_mean, "regression": regression, "discriminant": discriminant}


def features_of(spec: str, images: list[Image.Image]) -> Array:
    """Return what a frozen encoder gives for some images, squeezed to its square."""
    encoder = load_encoder(spec)
    side, rows = encoder.image_size, []
    with torch.no_grad():
        for start in range(0, len(images), 64):
            pixels = [
                np.array(image.resize((side, side), Image.Resampling.BICUBIC)) for image in images[start : start + 64]
            ]
            batch = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2)
            rows.append(torch.as_tensor(encoder.encode_image(batch)).float().numpy())
    return np.concatenate(rows)


def main() -> None:
    """Draw, fit, compare, and write the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pictures", type=Path, required=True)
    parser.add_argument("--encoder", action="append")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    files = sorted(path for path in options.pictures.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    digits = load_digits()
    pictures = [Image.open(path).convert("RGB") for path in files]
    sets = {
        options.pictures.name: (pictures, [path.parent.name for path in files]),
        "digits": (
            [Image.fromarray((image * 15.9).astype(np.uint8)).convert("RGB") for image in digits.images],
            digits.target.tolist(),
        ),
    }  # fmt: skip
    rows = []
    for spec in options.encoder or ["micro-clip", "lite:0"]:
        for name, (images, names) in sets.items():
            features, y = features_of(spec, images), np.array(names)
            noise = np.random.default_rng(0).normal(size=(features.shape[1],) * 2)
            rotation = np.linalg.qr(noise)[0].astype(np.float32)
            for shots in SHOTS:
                if shots + LEFT > np.unique(y, return_counts=True)[1].min():
                    continue
                for turned in (False, True):
                    draws = range(options.first, options.first + options.draws)
                    rows.append(compared(features @ rotation if turned else features, y, shots, draws))
                    rows[-1] = {"encoder": spec, "data": name, "turned": turned, **rows[-1]}
                    print(rows[-1], flush=True)
    behind = [row for row in rows for rival in RIVALS if rival in row and sum(row[rival]["difference"]) < 0]
    report = {"draws": options.draws, "first": options.first, "behind": len(behind), "rows": rows}
    (RESULTS / "few_images.json").write_text(json.dumps(report, indent=1) + "\n")
    (RESULTS / "few_images.md").write_text(table(rows, options.draws))


def compared(features: Array, y: Array, shots: int, draws: range) -> dict[str, object]:
    """Return accuracies of the default and its paired differences to the rivals, in points."""
    hits: dict[str, list[float]] = {}
    for draw in draws:
        rng = np.random.default_rng(draw)
        train = np.concatenate([rng.permutation(np.flatnonzero(y == name))[:shots] for name in np.unique(y)])
        test = rng.permutation(np.setdiff1d(np.arange(len(y)), train))[:TESTED]
        methods: dict[str, Predict] = {"ours": lambda x, y, seen: np.asarray(HeadClassifier().fit(x, y).predict(seen))}
        methods |= {name: rival for name, rival in RIVALS.items() if name != "discriminant" or shots >= 5}
        for name, predict in methods.items():
            predicted = predict(features[train], y[train], features[test])
            hits.setdefault(name, []).append(100 * float((predicted == y[test]).mean()))
    ours = np.array(hits.pop("ours"))
    rivals = {
        name: {"accuracy": float(np.mean(values)), "difference": interval((ours - np.array(values)).tolist())}
        for name, values in hits.items()
    }
    return {"shots": shots, "ours": float(ours.mean()), **rivals}


def table(rows: list[dict[str, object]], draws: int) -> str:
    """Return the rows as a Markdown table."""
    lines = [
        f"Accuracy in %, mean of {draws} draws; in brackets ours less the rival ± its 95 % interval over draws.",
        "",
        "| encoder | data | axes | images per class | ours | " + " | ".join(RIVALS) + " |",
        "|---|---|---|--:|--:|" + "---|" * len(RIVALS),
    ]
    for row in rows:
        cells = []
        for name in RIVALS:
            rival = row.get(name)
            if not isinstance(rival, dict):
                cells.append("")
                continue
            mean, half = rival["difference"]
            cells.append(f"{rival['accuracy']:.1f} ({mean:+.1f} ± {half:.1f})")
        axes = "rotated" if row["turned"] else "as they come"
        start = [row["encoder"], row["data"], axes, row["shots"], f"{row['ours']:.1f}"]
        lines.append("| " + " | ".join(str(cell) for cell in [*start, *cells]) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
