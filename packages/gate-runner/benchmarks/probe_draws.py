"""The runner's classification head on frozen features against scikit-learn's cross-validated logistic regression.

Each encoder's features of digits, faces and a folder of pictures are encoded once. The samples are then divided
anew for each draw, as many of each class to each split as before. The head (`vision_adapters.tuning.tune`, on
features before or behind the projection, whichever validates better) and, on the first draws, scikit-learn's
regressions see the same samples: "split" is ``LogisticRegression`` on standardised features whose C of 15 validates
best, fitted on the training split as a script would, "cv" is ``LogisticRegressionCV`` with 8 C and 3 folds on training
and validation together. scikit-learn sees the features that the head chose. Printed are mean differences with their
standard errors: the draws are of the same samples, so that these are of the division alone. Encoders that the results'
file has from a call with the same numbers of draws stay in it.

    python packages/gate-runner/benchmarks/probe_draws.py --pictures FOLDER [--draws 20] [--encoder micro-clip ...]

``--pictures`` is a folder with ``train/CLASS/`` and ``test/CLASS/``. ``--older SRC`` compares with the sources of
another version of the adapters, in a process of its own. ``--real FILE`` takes features and labels saved by torch.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

Draw = dict[str, torch.Tensor]
SPLITS = ("train", "validation", "test")
STRENGTHS = np.logspace(-6, 2, 15)


def encoded(spec: str, pictures: Path | None, limit: int) -> dict[str, dict[str, Any]]:
    """Features of each kind and labels of each data set's samples, and how many belong to which split."""
    from solved_probe import of_folder

    from gate_runner.benchmarks import BENCHMARKS, DataRequest
    from gate_runner.tasks import Job
    from gate_runner.tasks.features import kinds_to_probe, rows_of
    from vision_features.encoders import load_encoder
    from vision_features.features import FeatureCache

    encoder, sets = load_encoder(spec), {}
    for name in ("digits", "faces") if pictures is None else ("digits", "faces", "pictures"):
        if name == "pictures":
            data = of_folder(pictures, encoder.image_size, None)
        else:
            data = BENCHMARKS[name].load("built-in", DataRequest(limit=limit, size=encoder.image_size))
        store = FeatureCache(Path(tempfile.mkdtemp()) / "encoder")
        job = Job(encoder, BENCHMARKS["digits"], data, features=store)
        splits = [getattr(data, split) for split in SPLITS]
        with torch.inference_mode():
            features = {
                name: torch.cat(
                    [
                        rows_of(job, split, kind, f"{part}-{name}")[:].float().clone()
                        for part, split in zip(SPLITS, splits, strict=True)
                    ]
                )
                for name, kind in kinds_to_probe(job).items()
            }
        sets[name] = {"features": features, "labels": [split.targets for split in splits]}
    return sets


def redrawn(labels: list[torch.Tensor], seed: int) -> Draw:
    """Rows of each split, as many of each class in each as before, drawn anew; seed 0 leaves all as it was."""
    pooled = torch.cat(labels)
    order = torch.arange(len(pooled))
    if seed:
        order = torch.from_numpy(np.random.default_rng(seed).permutation(len(pooled)))
    by_class = {int(label): order[pooled[order] == label].tolist()[::-1] for label in pooled.unique()}
    return {
        split: torch.tensor([by_class[int(label)].pop() for label in targets])
        for split, targets in zip(SPLITS, labels, strict=True)
    }


def scored(features: dict[str, torch.Tensor], labels: torch.Tensor, draw: Draw) -> dict[str, Any]:
    """The head's test accuracy, what it is, and the processor seconds that it took."""
    from vision_adapters.tuning import tune
    from vision_adapters.tuning.data import TuningData
    from vision_adapters.tuning.folds import Fold

    rows = torch.cat([draw["train"], draw["validation"]])
    fold = Fold(torch.arange(len(draw["train"])), torch.arange(len(draw["train"]), len(rows)))
    begin, choices = time.process_time(), {}
    for name, table in features.items():
        data = TuningData(table[rows], labels[rows], int(labels.max()) + 1, None, 100.0, "accuracy", (fold,))
        choices[name] = tune(data)
    name = max(choices, key=lambda name: choices[name].validation or 0.0)
    seconds = time.process_time() - begin
    hits = choices[name].scores(features[name][draw["test"]]).argmax(1) == labels[draw["test"]]
    kind = " ".join([str(choices[name].best_params["kind"]), str(choices[name].best_params.get("lengths", "unit"))])
    return {"accuracy": float(hits.float().mean()), "features": name, "kind": kind, "cpu": seconds}


def scikit_learn(table: torch.Tensor, labels: torch.Tensor, draw: Draw) -> dict[str, float]:
    """Test accuracies of its regressions on one kind of features, and processor seconds."""
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = {split: table[rows].numpy() for split, rows in draw.items()}
    y = {split: labels[rows].numpy() for split, rows in draw.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin, best = time.process_time(), (-1.0, 0.0)
        scale = StandardScaler().fit(x["train"])
        for strength in STRENGTHS:
            model = LogisticRegression(C=strength, max_iter=1000).fit(scale.transform(x["train"]), y["train"])
            accuracies = [model.score(scale.transform(x[split]), y[split]) for split in ("validation", "test")]
            best = max(best, (accuracies[0], accuracies[1]))
        between = time.process_time()
        searched = make_pipeline(StandardScaler(), LogisticRegressionCV(Cs=STRENGTHS[::2], cv=3, max_iter=1000))
        searched.fit(*(np.concatenate([parts["train"], parts["validation"]]) for parts in (x, y)))
        accuracy = searched.score(x["test"], y["test"])
    return {
        "split": best[1], "split_cpu": between - begin, "cv": accuracy, "cv_cpu": time.process_time() - between,
    }  # fmt: skip


def all_scored(file: Path, draws: int, peer_draws: int) -> list[dict[str, Any]]:
    """A row for each set of a file and each draw."""
    rows = []
    for name, data in torch.load(file, weights_only=False).items():
        labels = torch.cat(data["labels"])
        for seed in range(draws):
            draw = redrawn(data["labels"], seed)
            row = {"data": name, "seed": seed, **scored(data["features"], labels, draw)}
            if seed < peer_draws:
                row |= scikit_learn(data["features"][row["features"]], labels, draw)
            rows.append(row)
    return rows


def paired(ours: list[float], peer: list[float]) -> dict[str, float]:
    """The mean difference, in points, with its standard error."""
    gaps = 100 * (np.array(ours) - np.array(peer))
    return {"points": float(gaps.mean()), "standard_error": float(gaps.std(ddof=1) / np.sqrt(len(gaps)))}


def child(file: Path, options: argparse.Namespace, source: Path | None) -> list[dict[str, Any]]:
    """The rows of a file by this version of the adapters, or by that of other sources, in a fresh process."""
    path = os.environ.get("PYTHONPATH", "")
    environment = os.environ | {"PYTHONPATH": path if source is None else f"{source.absolute()}{os.pathsep}{path}"}
    command = [sys.executable, __file__, "--score", str(file), "--draws", str(options.draws)]
    command += ["--peer-draws", str(0 if source else options.peer_draws)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def summary(rows: list[dict[str, Any]], older: list[dict[str, Any]]) -> dict[str, Any]:
    """Of one encoder and one set."""
    ours, peers = [row["accuracy"] for row in rows], [row for row in rows if "cv" in row]
    figures: dict[str, Any] = {
        "accuracy": float(np.mean(ours)),
        "less_split": paired(ours[: len(peers)], [row["split"] for row in peers]),
        "less_cv": paired(ours[: len(peers)], [row["cv"] for row in peers]),
        "cpu": {name: float(np.median([row[name] for row in peers])) for name in ("cpu", "split_cpu", "cv_cpu")},
        "chosen": dict(Counter(row["kind"] for row in rows)),
    }
    if older:
        figures["less_older"] = paired(ours, [row["accuracy"] for row in older])
        figures["cpu"]["older"] = float(np.median([row["cpu"] for row in older]))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", action="append")
    parser.add_argument("--limit", type=int, default=400, help="samples of each split of the digits and faces")
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--real", type=Path, help="{split: (features, labels)} saved by torch")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--older", type=Path, help="src folder of another version of the adapters")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "probe_draws.json")
    parser.add_argument("--score", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--peer-draws", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.score:
        print(json.dumps(all_scored(options.score, options.draws, options.peer_draws)))
        return
    cells: dict[str, Any] = {}
    sources = options.encoder or ([] if options.real else ["micro-clip", "timm:resnet18/random", "lite:0"])
    for spec in [*sources, *(["real size"] if options.real else [])]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "features.pt"
            if spec in sources:
                sets = encoded(spec, options.pictures, options.limit)
            else:
                saved = list(torch.load(options.real).values())
                features = torch.cat([part[0] for part in saved])
                sets = {"folder": {"features": {"projected": features}, "labels": [part[1] for part in saved]}}
            torch.save(sets, file)
            rows = child(file, options, None)
            older = child(file, options, options.older) if options.older else []
        for name in sets:
            cell = [[row for row in part if row["data"] == name] for part in (rows, older)]
            cells[f"{spec} {name}"] = summary(*cell)
            print(f"{spec} {name}", json.dumps(cells[f"{spec} {name}"]), flush=True)
    report: dict[str, Any] = {"draws": options.draws, "peer_draws": options.peer_draws, "cells": cells}
    if options.output.is_file():
        before = json.loads(options.output.read_text())
        if all(before.get(name) == report[name] for name in ("draws", "peer_draws")):
            report["cells"] = before["cells"] | cells
    for peer in ("less_split", "less_cv", *(["less_older"] if options.older else [])):
        points = [cell[peer]["points"] for cell in report["cells"].values() if peer in cell]
        report[f"mean_{peer}"] = float(np.mean(points))
    report["hardware"] = {"machine": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    report["versions"] = {name: version(name) for name in ("gate-runner", "torch", "scikit-learn", "numpy")}
    print({name: value for name, value in report.items() if name.startswith("mean")})
    options.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
