"""The runner's classification head on frozen features against scikit-learn's logistic regression.

For each encoder and data set: the test accuracy and the processor seconds of the runner's head, and of
``LogisticRegression`` on standardised features whose C is the one of 15 values that validates best. Features are
encoded once and are in neither time. Both see the same splits.

    python packages/gate-runner/benchmarks/solved_probe.py [--limit 400] [--encoder micro-clip ...] [--pictures FOLDER]
    python packages/gate-runner/benchmarks/solved_probe.py --pictures FOLDER --draws 20   # the pictures alone

``--pictures`` is a folder with ``train/CLASS/`` and ``test/CLASS/``, as a further data set. With ``--draws``, its
pictures are divided anew so many times, as many of each class to each split as before, and the mean difference is
kept beside the figures that are there. The draws are of the same pictures: its standard error is of the division
alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
import warnings
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from gate_data.data import Data, Split
from gate_data.pictures import Pictures
from gate_runner.benchmarks import BENCHMARKS, DataRequest
from gate_runner.tasks import Job
from gate_runner.tasks.classification import solve_and_test
from gate_runner.tasks.features import pooled, rows_of
from vision_adapters.rows.counting import log_frequencies
from vision_features.encoders import load_encoder
from vision_features.features import FeatureCache

STRENGTHS = np.logspace(-6, 2, 15)


def once() -> FeatureCache:
    """An empty cache: what is encoded for one head is there for the next."""
    return FeatureCache(Path(tempfile.mkdtemp()) / "encoder")


def of_folder(folder: Path, size: int, limit: int | None) -> Data[Any]:
    """``train/CLASS/`` and ``test/CLASS/``; of each training class, a fifth validates, by a fixed seed."""
    rng, names = np.random.default_rng(0), sorted(path.name for path in (folder / "train").iterdir())
    parts: dict[str, list[tuple[Path, int]]] = {"train": [], "validation": [], "test": []}
    for label, name in enumerate(names):
        files = sorted((folder / "train" / name).iterdir())
        order = [files[index] for index in rng.permutation(len(files))]
        validation_count = max(1, len(order) // 5)
        parts["train"] += [(file, label) for file in order[validation_count:]]
        parts["validation"] += [(file, label) for file in order[:validation_count]]
        parts["test"] += [(file, label) for file in sorted((folder / "test" / name).iterdir())]
    splits = [
        Split(Pictures.of([file for file, _ in rows], side=size)[:], torch.tensor([label for _, label in rows]))
        for rows in parts.values()
    ]
    return Data(splits[0], splits[1], splits[2], tuple(names)).limited(limit)


def redrawn(labels: torch.Tensor, splits: dict[str, Split[Any]], seed: int) -> dict[str, torch.Tensor]:
    """Places of the samples of each split, as many of each class in each as before, drawn anew."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(labels)))
    left = {int(label): order[labels[order] == label].tolist() for label in labels.unique()}
    return {name: torch.tensor([left[int(label)].pop() for label in split.targets]) for name, split in splits.items()}


def over_draws(spec: str, folder: Path, draws: int) -> dict[str, Any]:
    """Accuracies of both on each division, and the mean difference with its standard error."""
    encoder = load_encoder(spec)
    data = of_folder(folder, encoder.image_size, None)
    splits = {"train": data.train, "validation": data.validation, "test": data.test}
    whole = Split(
        torch.cat([split.images[:] for split in splits.values()]),
        torch.cat([split.targets for split in splits.values()]),
    )
    job, rows = Job(encoder, BENCHMARKS["digits"], replace(data, train=whole)), []
    with torch.inference_mode():
        store = once()
        for seed in range(1, draws + 1):
            places = redrawn(whole.targets, splits, seed)
            train, validation, test = (whole.take(places[name]) for name in splits)
            own = Data(train, validation, test, data.classes)
            rows.append(compared(replace(job, data=own, features=store)))
    gaps = np.array([row["ours"] - row["sklearn"] for row in rows])
    return {
        "encoder": spec,
        "ours": [row["ours"] for row in rows],
        "sklearn": [row["sklearn"] for row in rows],
        "mean difference": float(gaps.mean()),
        "standard error": float(gaps.std(ddof=1) / np.sqrt(draws)),
        "at or above within .005": int((gaps >= -0.005 - 1e-9).sum()),
        "cpu_ours": sum(row["cpu_ours"] for row in rows),
        "cpu_sklearn": sum(row["cpu_sklearn"] for row in rows),
    }


def compared(job: Job) -> dict[str, Any]:
    """Accuracies and processor seconds."""
    data = job.data
    parts = {}
    for name in ("train", "validation", "test"):
        split = getattr(data, name)
        parts[name] = pooled(job, split, f"{name}-projected")[:].float()
        if job.encoder.backbone is not None:
            rows_of(job, split, "backbone", f"{name}-backbone")
    begin = time.process_time()
    outcome = solve_and_test(job, log_frequencies(data.train.targets, len(data.classes)).expand(len(data.test), -1))
    ours = time.process_time() - begin
    begin = time.process_time()
    scale = StandardScaler().fit(parts["train"].numpy())
    x, validation, test = (scale.transform(parts[name].numpy()) for name in ("train", "validation", "test"))
    best = (-1.0, 0.0, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for strength in STRENGTHS:
            model = LogisticRegression(C=strength, max_iter=1000).fit(x, data.train.targets.numpy())
            validated = model.score(validation, data.validation.targets.numpy())
            if validated > best[0]:
                best = (validated, model.score(test, data.test.targets.numpy()), float(strength))
    theirs = time.process_time() - begin
    return {
        "ours": outcome.scores[0].value,
        "low": outcome.scores[0].low,
        "high": outcome.scores[0].high,
        "features": outcome.training["features"],
        "sklearn": best[1],
        "C": best[2],
        "cpu_ours": ours,
        "cpu_sklearn": theirs,
        "samples": [len(data.train), len(data.validation), len(data.test)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", action="append")
    parser.add_argument("--limit", type=int, default=400, help="samples of each split; 0 for all")
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--draws", type=int, help="divide the pictures so many times, and run nothing else")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "solved_probe.json")
    options = parser.parse_args()
    specs = options.encoder or ["micro-clip", "timm:resnet18/random", "lite:0"]
    report = json.loads(options.output.read_text()) if options.output.is_file() else {}
    if options.draws is not None:
        report["draws"] = []
        for spec in specs:
            report["draws"].append(draw := over_draws(spec, options.pictures, options.draws))
            print({key: value for key, value in draw.items() if key not in ("ours", "sklearn")}, flush=True)
        options.output.write_text(json.dumps(report, indent=2) + "\n")
        return
    rows = []
    for spec in specs:
        encoder = load_encoder(spec)
        for name, source in (("digits", "built-in"), ("cifar100", "micro"), ("imagenet1k", "micro"), ("pictures", "")):
            if name == "pictures" and options.pictures is None:
                continue
            limit = options.limit or None
            if name == "pictures":
                data = of_folder(options.pictures, encoder.image_size, limit)
            else:
                data = BENCHMARKS[name].load(source, DataRequest(limit=limit, size=encoder.image_size))
            benchmark = BENCHMARKS["digits" if name == "pictures" else name]
            with torch.inference_mode():
                row = {"encoder": spec, "data": name, **compared(Job(encoder, benchmark, data, features=once()))}
            rows.append(row)
            print(
                f"{spec:<22}{name:<12}ours {row['ours']:.3f} ({row['features']}), scikit-learn {row['sklearn']:.3f}"
                f"  CPU {row['cpu_ours']:.2f} s and {row['cpu_sklearn']:.2f} s",
                flush=True,
            )
    report |= {
        "rows": rows,
        "at_or_above_within_.005": sum(row["ours"] >= row["sklearn"] - 0.005 for row in rows),
        "no_more_cpu": sum(row["cpu_ours"] <= row["cpu_sklearn"] for row in rows),
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
        "versions": {name: version(name) for name in ("gate-runner", "torch", "scikit-learn", "numpy")},
    }
    options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
