"""The default tuner with and without its later candidates: test accuracy and CPU time.

    python benchmarks/default_candidates.py

These are "solved", "cache" and "class_means", and the start at ridge discriminants where there are no texts. Data are
scikit-learn's handwritten digits, raw pixels without texts: shots drawn by ELEVATER's rule from the first 1,000, scored
on the other 797; and `synthetic.py`'s features with texts, 5, 20 and 100 images of 10 classes, and the case "small" of
`tuning.py`, 20 of 100 classes. Ten draws each, the same for both, one after the other in one process; the interval is
Student's for the mean difference over draws. Beside them scikit-learn's logistic regression, C searched on validation.
Writes results/default_candidates.json.
"""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import time
from pathlib import Path
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sklearn
import torch
from sklearn.datasets import load_digits
from synthetic import make
from torch import Tensor

from vision_adapters.fewshot import elevater_indices
from vision_adapters.tuning import HeldOut, Tuned, TuningData, anchored, tune, tuning_data

DRAWS, T_95 = 10, 2.262
ADDED = ("solved", "cache", "class_means")


def before(data: TuningData) -> Tuned:
    """The default without what was added to it."""
    added = dict.fromkeys(ADDED, lambda *_: None)
    with mock.patch.multiple(anchored._Trials, **added, is_ahead=lambda *_: True):
        return tune(data)


METHODS = {"before": before, "now": tune, "logistic": lambda data: tune(data, "logistic")}


def draws(name: str, shots: int) -> list[tuple[TuningData, HeldOut]]:
    pairs = []
    pixels, digits = load_digits(return_X_y=True)
    for seed in range(DRAWS):
        x: Tensor
        if name == "digits":
            x, y = torch.tensor(pixels, dtype=torch.float32), torch.tensor(digits)
            texts, pool = None, 1000
        else:
            small = name == "small"
            features = make(2000, 512 if small else 256, 100 if small else 10, seed, noise=6.0 if small else 4.0,
                            text_noise=2.5 if small else 3.0)  # fmt: skip
            x, y = torch.cat([features.train, features.test]), torch.cat([features.train_labels, features.test_labels])
            texts, pool = features.texts, 2000
        chosen = torch.from_numpy(elevater_indices(y[:pool], shots, seed).indices)
        data = tuning_data(x[chosen], y[chosen], class_embeddings=texts, seed=seed)
        pairs.append((data, HeldOut(x[pool:], y[pool:])))
    return pairs


def measure(name: str, shots: int) -> dict[str, object]:
    accuracy: dict[str, list[float]] = {method: [] for method in METHODS}
    seconds: dict[str, list[float]] = {method: [] for method in METHODS}
    kinds: list[str] = []
    for data, test_set in draws(name, shots):
        for method, call in METHODS.items():
            start = time.process_time()
            tuned = call(data)
            seconds[method].append(time.process_time() - start)
            accuracy[method].append(test_set.score(tuned, resamples=0).value)
            if method == "now":
                kinds.append(str(tuned.best_params["kind"]))
    gain = [now - then for now, then in zip(accuracy["now"], accuracy["before"], strict=True)]
    return {
        "data": name,
        "shots": shots,
        "accuracy": {method: statistics.fmean(values) for method, values in accuracy.items()},
        "gain": statistics.fmean(gain),
        "gain_half_interval": T_95 * statistics.stdev(gain) / math.sqrt(DRAWS),
        "cpu_ratio": statistics.median(seconds["now"]) / statistics.median(seconds["before"]),
        "chosen": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
    }


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for name, shots in [("digits", 1), ("digits", 5), ("digits", 20), ("digits", 80), ("texts", 5), ("texts", 20),
                        ("texts", 100), ("small", 20)]:  # fmt: skip
        rows.append(measure(name, shots))
        print(json.dumps(rows[-1]), flush=True)
    versions = {"torch": torch.__version__, "scikit-learn": sklearn.__version__}
    result = {"draws": DRAWS, "rows": rows, "hardware": platform.processor(), "versions": versions}
    (Path(__file__).parent / "results" / "default_candidates.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
