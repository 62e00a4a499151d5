"""The head that `adapt probe` keeps against scikit-learn's regressions and the library's default, on the same features.

    python experiments/six_divisions.py --pictures FOLDER [--encoder lite:0] [--divisions 6]

``FOLDER`` has a folder of images for each class, at any depth; 1,200 of scikit-learn's digits are the second set. Each
division trains on one half and tests on the other, drawn by class. `gate_runner.run` computes the first column, from
image files to the test score. The others are fitted on the features of `vision_features.embed`: ``HeadClassifier()``,
and the best of `LogisticRegression` at C = 1, `LogisticRegressionCV` on unit rows and on standardised ones
(8 strengths, 5 folds). "Best" is by the mean over the divisions. Writes results/six_divisions.json.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from few_images import unit
from icinw_few_shot import interval
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import gate_runner
from vision_adapters import HeadClassifier
from vision_features.heads import embed

RESULTS = Path(__file__).parent / "results"
IMAGES = 1200
Array = np.ndarray
SEARCH = {"Cs": np.logspace(-4, 4, 8), "cv": 5, "max_iter": 3000}
RIVALS: dict[str, Callable[[], object]] = {
    "default": HeadClassifier,
    "regression, unit rows": lambda: make_pipeline(FunctionTransformer(unit), LogisticRegression(max_iter=3000)),
    "search, unit rows": lambda: make_pipeline(FunctionTransformer(unit), LogisticRegressionCV(**SEARCH)),
    "search, standardised": lambda: make_pipeline(StandardScaler(), LogisticRegressionCV(**SEARCH)),
}


def of_folder(folder: Path, place: Path) -> tuple[list[Path], list[str]]:
    """Return the images below folders of classes, linked into a folder, and their classes."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".jpg", ".png"))[:IMAGES]
    for number, path in enumerate(files):
        (place / f"{number}{path.suffix}").symlink_to(path.resolve())
    return [place / f"{number}{path.suffix}" for number, path in enumerate(files)], [path.parent.name for path in files]


def digits(place: Path) -> tuple[list[Path], list[str]]:
    """Return image files of scikit-learn's digits, 8 pixels each, and their classes."""
    data = load_digits()
    rows = np.random.default_rng(0).permutation(len(data.target))[:IMAGES]
    for row in rows:
        Image.fromarray((data.images[row] * 15.9).astype(np.uint8)).convert("RGB").save(place / f"{row}.png")
    return [place / f"{row}.png" for row in rows], [f"digit{data.target[row]}" for row in rows]


def halves(labels: Array, seed: int) -> Array:
    """Return whether each row is tested: one half of each class."""
    tested = np.zeros(len(labels), bool)
    order = np.random.default_rng(seed).permutation(len(labels))
    for name in np.unique(labels):
        of_class = order[labels[order] == name]
        tested[of_class[: len(of_class) // 2]] = True
    return tested


def runner_score(place: Path, files: list[Path], labels: Array, tested: Array, encoder: str, seed: int) -> float:
    """Return the test accuracy of a run on a table of the files."""
    rows = [
        f"{file.name},{label},{'test' if out else 'train'}"
        for file, label, out in zip(files, labels, tested, strict=True)
    ]
    (place / "all.csv").write_text("\n".join(["file,label,split", *rows]) + "\n")
    (place / "benchmark.toml").write_text(
        '[benchmark]\nid = "halves"\n[data]\nkind = "table"\ntable = "all.csv"\nimage = "file"\n'
        '[splits]\ncolumn = "split"\ntrain = "train"\ntest = "test"\n'
    )
    run = gate_runner.run(
        str(place / "benchmark.toml"), encoder=encoder, output=place / f"run{seed}", show=False, isolate="none"
    )
    (result,) = run.results
    assert result.status == "ok", result.reason
    return float(result.headline.value)


def scored(place: Path, files: list[Path], names: list[str], encoder: str, divisions: int) -> dict[str, list[float]]:
    """Return the accuracies of each column, by division."""
    labels = np.array(names)
    accuracies: dict[str, list[float]] = {"runner": [], **{name: [] for name in RIVALS}}
    for seed in range(divisions):
        tested = halves(labels, seed)
        accuracies["runner"].append(runner_score(place, files, labels, tested, encoder, seed))
        if not seed:
            embed(place / "benchmark.toml", place / "features.npz", encoder=encoder)
            with np.load(place / "features.npz") as arrays:
                by_name = dict(zip([Path(name).name for name in arrays["files"]], arrays["features"], strict=True))
            features = np.stack([by_name[file.name] for file in files]).astype(np.float32)
        for name, make in RIVALS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = make().fit(features[~tested], labels[~tested])  # type: ignore[attr-defined]
            accuracies[name].append(float((np.asarray(model.predict(features[tested])) == labels[tested]).mean()))
        print(seed, {name: round(values[-1], 4) for name, values in accuracies.items()}, flush=True)
    return accuracies


def main() -> None:
    """Print and write accuracies, and the runner's differences with their standard errors."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures", type=Path, required=True)
    parser.add_argument("--encoder", default="lite:0")
    parser.add_argument("--divisions", type=int, default=6)
    options = parser.parse_args()
    results = {}
    for name in ("pictures", "digits"):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            files, labels = of_folder(options.pictures, place) if name == "pictures" else digits(place)
            accuracies = scored(place, files, labels, options.encoder, options.divisions)
        means = {column: float(np.mean(values)) for column, values in accuracies.items()}
        best = max((column for column in RIVALS if column != "default"), key=means.__getitem__)
        less = {
            against: interval(np.array(accuracies["runner"]) - np.array(accuracies[column]))
            for against, column in (("scikit-learn's best", best), ("default", "default"))
        }
        results[name] = {"images": len(files), "accuracies": accuracies, "best": best, "means": means, "less": less}
        print(name, len(files), {column: round(value, 4) for column, value in means.items()}, best, less)
    RESULTS.joinpath("six_divisions.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
