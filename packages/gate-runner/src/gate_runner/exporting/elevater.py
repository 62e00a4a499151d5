"""ELEVATER's submissions: for each way to adapt of a sweep, a zip with the predictions of its data sets and seeds.

A zip holds ``all_predictions.json`` with ``{"data": [entry, …]}``; an entry is one data set with
``predictions[seed][image][class]``, six decimals. Rows follow the test index, columns ELEVATER's order of classes,
which is the sweep's own.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from gate_data.cards import ICINW
from gate_runner.errors import DataError
from gate_runner.exporting import odinw
from gate_runner.exporting.model import Files, ModelName
from gate_runner.files import read_arrays
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.results import Result
from gate_runner.runs.stored import StoredRun

_MEMBER = "all_predictions.json"


def files(run: StoredRun, model: ModelName, organization: str) -> Files:
    """A zip for each way to adapt, and what it lacks of the 20 data sets; of detections, files in ODinW's form."""
    detections = odinw.files(run) if odinw.has_detections(run) else Files({})
    ways: dict[str, dict[str, list[Result]]] = {}
    for result in run.results:
        dataset, _, way = result.benchmark.partition("@")
        if result.task == "elevater" and result.status == "ok" and dataset in ICINW:
            ways.setdefault(way, {}).setdefault(dataset, []).append(result)
    if not ways and detections.contents:
        return detections
    if not ways:
        raise DataError(
            f"{run.path} has no scored unit of a sweep over ELEVATER's data sets: {', '.join(ICINW)}; nor of ODinW"
        )
    contents: dict[str, str | bytes] = dict(detections.contents)
    left_out = list(detections.left_out)
    for way, by_set in ways.items():
        entries = [_entry(run, model.id, dataset, results) for dataset, results in by_set.items()]
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
            stamp = zipfile.ZipInfo(_MEMBER, (1980, 1, 1, 0, 0, 0))  # the same bytes for the same run
            stamp.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(stamp, json.dumps({"data": entries}))
        contents[f"{way}.zip"] = packed.getvalue()
        missing = [name for name in ICINW if name not in by_set]
        if missing:
            left_out.append(f"{way} lacks {len(missing)} of {len(ICINW)} data sets: {', '.join(missing)}")
    return Files(contents, tuple(left_out))


def _entry(run: StoredRun, model: str, dataset: str, results: Sequence[Result]) -> dict[str, Any]:
    """ELEVATER's fields of one data set."""
    parameters = run.manifest["identity"]["encoder"].get("parameters") or 0
    trained = sum(int(result.training["trained_parameters"]) for result in results) / len(results)
    return {
        "model_name": model,
        "dataset_name": dataset,
        "num_trainable_params": trained,
        "num_params": parameters + trained,
        "num_visual_params": parameters,
        "num_backbone_params": parameters,
        "n_shot": int(results[0].training["variant"]["shots"]),
        "rnd_seeds": [result.seed for result in results],
        "predictions": [_predictions(run, result, ICINW[dataset].classes) for result in results],
    }


def _predictions(run: StoredRun, result: Result, classes: int) -> list[list[float]]:
    """Probabilities of each test image; what ELEVATER's validator refuses is refused."""
    path = RunFolder(run.path).predictions_file(result.name, result.seed)
    try:
        predictions = read_arrays(path)["predictions"].astype(np.float64)
    except Exception as error:  # zipfile and NumPy raise errors of every kind over broken files
        raise DataError(f"{path} is not there: run with --setting keep_predictions=true, which keeps them") from error
    if predictions.ndim != 2 or predictions.shape[1] != classes:
        raise DataError(f"{path}: predictions have shape {predictions.shape}, expected [image][{classes} classes]")
    off = (predictions.min(1) < 0) | (np.abs(predictions.sum(1) - 1) > 1e-3) | ~np.isfinite(predictions).all(1)
    if off.any():
        image = int(np.flatnonzero(off)[0])
        raise DataError(f"{path}: row of image {image} is no distribution: its sum is {predictions[image].sum():.6f}")
    return [[round(float(share), 6) for share in row] for row in predictions]
