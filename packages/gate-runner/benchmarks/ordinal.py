"""Whether classes in an order want a head that knows the order: four decodings of the same frozen features.

Grades of the diabetic stand-in and counts of the animals in a picture of iWildCam's, with two encoders. Compared are
the class of highest probability of a multinomial logistic regression (what the runner does), the median of its
distribution, ridge regression rounded to a grade, and a cumulative link (proportional odds, one weight vector and
ordered thresholds). Each chooses its penalty on validation by mean absolute error; printed is the error on the test
split and on validation, and the paired 95 % interval of its difference from the first.

    python packages/gate-runner/benchmarks/ordinal.py [--output ordinal.json]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.linear_model import LogisticRegression, Ridge

from gate_data.imports import named
from gate_data.request import DataRequest
from gate_runner.benchmarks.registry import STAND_INS
from vision_features.encoders import load_encoder

RESULTS = Path(__file__).parent / "results" / "ordinal.json"
STRENGTHS = tuple(10.0**power for power in (-3, -2, -1, 0, 1, 2))
Guess = Callable[[np.ndarray], np.ndarray]


def cumulative_link(rows: np.ndarray, grades: np.ndarray, strength: float, count: int) -> Guess:
    """Proportional odds: P(grade > k) = sigmoid(w x - threshold k), by maximum likelihood with a penalty on w."""
    width = rows.shape[1]

    def thresholds(free: np.ndarray) -> np.ndarray:
        return np.cumsum(np.concatenate([free[:1], np.exp(free[1:])]))

    def loss(params: np.ndarray) -> tuple[float, np.ndarray]:
        weight, cuts = params[:width], thresholds(params[width:])
        z = np.concatenate([[-np.inf], cuts, [np.inf]])
        score = rows @ weight
        upper, lower = z[grades + 1] - score, z[grades] - score
        high, low = expit(upper), expit(lower)
        chance = np.maximum(high - low, 1e-12)
        slope_high, slope_low = high * (1 - high) / chance, low * (1 - low) / chance
        gradient = rows.T @ (slope_high - slope_low) / len(rows) + weight / (strength * len(rows))
        by_cut = np.zeros(count + 1)
        np.add.at(by_cut, grades + 1, -slope_high)
        np.add.at(by_cut, grades, slope_low)
        own = by_cut[1:count] / len(rows)
        tail = np.cumsum(own[::-1])[::-1]
        free = np.concatenate([tail[:1], tail[1:] * np.exp(params[width + 1 :])])
        value = -np.log(chance).mean() + 0.5 * weight @ weight / (strength * len(rows))
        return float(value), np.concatenate([gradient, free])

    shares = np.clip(np.cumsum(np.bincount(grades, minlength=count))[:-1] / len(grades), 0.01, 0.99)
    cuts = np.log(shares / (1 - shares))
    start = np.concatenate([np.zeros(width), cuts[:1], np.log(np.maximum(np.diff(cuts), 1e-3))])
    solved = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    weight, cuts = solved.x[:width], thresholds(solved.x[width:])
    return lambda more: (log_expit(more @ weight[:, None] - cuts) > np.log(0.5)).sum(axis=1)


def logistic(rows: np.ndarray, grades: np.ndarray, strength: float, count: int, *, median: bool = False) -> Guess:
    """Multinomial; the class of highest probability, or the median of the distribution."""
    fitted = LogisticRegression(C=strength, max_iter=2000).fit(rows, grades)
    if not median:
        return fitted.predict
    return lambda more: fitted.classes_[(np.cumsum(fitted.predict_proba(more), axis=1) < 0.5).sum(axis=1)]


def rounded(rows: np.ndarray, grades: np.ndarray, strength: float, count: int) -> Guess:
    """Ridge regression of the grade's number."""
    fitted = Ridge(alpha=1 / strength).fit(rows, grades)
    return lambda more: np.clip(np.rint(fitted.predict(more)), 0, count - 1).astype(int)


HEADS: dict[str, Callable[..., Guess]] = {
    "most likely class": logistic,
    "median of the classes": lambda *about: logistic(*about, median=True),
    "ridge, rounded": rounded,
    "cumulative link": cumulative_link,
}


def table(name: str, encoder: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Standardised features and grades of each split."""
    data = named(STAND_INS[name])(DataRequest())
    rows = {}
    for split in ("train", "validation", "test"):
        part = getattr(data, split)
        images = part.images if part.images.ndim == 4 else part.images[:, 0]
        features = np.concatenate([encoder.encode_image(batch).float().numpy() for batch in images.split(64)])
        grades = part.targets.argmax(dim=1) if part.targets.ndim == 2 else part.targets
        rows[split] = (features.astype(np.float64), grades.numpy().astype(int))
    mean, spread = rows["train"][0].mean(axis=0), rows["train"][0].std(axis=0) + 1e-9
    return {split: ((features - mean) / spread, grades) for split, (features, grades) in rows.items()}


def main() -> None:
    """Fit, print, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    rng, report = np.random.default_rng(0), []
    for name in ("diabetic", "iwildcam"):
        for spec in ("micro-clip", "lite:0"):
            rows = table(name, load_encoder(spec))
            count = 1 + max(int(grades.max()) for _, grades in rows.values())
            errors: dict[str, np.ndarray] = {}
            for head, fit in HEADS.items():
                guesses = [fit(*rows["train"], strength, count) for strength in STRENGTHS]
                validated = [
                    float(np.abs(guess(rows["validation"][0]) - rows["validation"][1]).mean()) for guess in guesses
                ]
                chosen = int(np.argmin(validated))
                features, grades = rows["test"]
                errors[head] = np.abs(guesses[chosen](features) - grades).astype(float)
                gain = errors["most likely class"] - errors[head]
                draws = gain[rng.integers(0, len(gain), (4000, len(gain)))].mean(axis=1)
                row = {
                    "table": name,
                    "encoder": spec,
                    "head": head,
                    "validation": validated[chosen],
                    "test": float(errors[head].mean()),
                    "gain": [float(gain.mean()), *(float(end) for end in np.quantile(draws, (0.025, 0.975)))],
                }
                report.append(row)
                shown = "{:+.3f} ({:+.3f} to {:+.3f})".format(*row["gain"])
                print(
                    f"{name:<10}{spec:<12}{head:<24}validation {row['validation']:.3f}  test {row['test']:.3f}  {shown}"
                )
    options.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
