"""ODinW's submission: COCO's results of each data set, in one JSON file for each way to adapt and number of shots.

Zero-shot and all images are ``{dataset: [result, …]}``, few shots ``{dataset: {seed: [result, …]}}``. A result has
``image_id``, ``category_id``, ``bbox`` (left, top, width, height) and ``score``; ids are those of the annotation file.

Source:
    ELEVATER's leaderboard of detection, which scores 3 shots with seeds 3, 30 and 300.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gate_data.originals.odinw import SETS
from gate_data.ragged import Ragged
from gate_runner.errors import DataError
from gate_runner.exporting.model import Files
from gate_runner.files import read_arrays
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.results import Result
from gate_runner.runs.stored import StoredRun

_SEEDS = (3, 30, 300)
"""The seeds of ELEVATER's own draws."""
Way = tuple[str, str]


def has_detections(run: StoredRun) -> bool:
    """Return whether a run has scored ODinW's test splits."""
    return bool(_by_way(run))


def files(run: StoredRun) -> Files:
    """Return a JSON file for each way to adapt and number of shots, and what it lacks."""
    contents: dict[str, str | bytes] = {}
    left_out = []
    for (tune, shots), by_set in _by_way(run).items():
        name = "zero-shot" if shots == "0" else f"{'full' if shots == 'full' else f'{shots}-shot'}-{tune}"
        few = shots not in ("0", "full")
        content: dict[str, Any] = {}
        for dataset, results in by_set.items():
            by_seed = {result.seed: result for result in sorted(results, key=lambda result: result.seed)}
            first = next(iter(by_seed.values()))
            content[dataset] = (
                {str(seed): _results(run, result) for seed, result in by_seed.items()} if few else _results(run, first)
            )
            if few and (missing := [str(seed) for seed in _SEEDS if seed not in by_seed]):
                left_out.append(f"{name}: {dataset} lacks seed {', '.join(missing)} of {', '.join(map(str, _SEEDS))}")
            if not few and len(by_seed) > 1:
                left_out.append(f"{name}: {dataset} has room for one seed; it holds {first.seed} of {len(by_seed)}")
            if cut := [result for result in by_seed.values() if result.settings.get("limit") is not None]:
                left_out.append(f"{name}: {dataset} is scored on {cut[0].data.get('test')} images alone (--limit)")
        lacking = [row["name"] for row in SETS.values() if row["name"] not in content]
        if lacking:
            left_out.append(f"{name} lacks {len(lacking)} of {len(SETS)} data sets: {', '.join(lacking)}")
        contents[f"odinw-{name}.json"] = json.dumps(content)
    return Files(contents, tuple(left_out))


def _by_way(run: StoredRun) -> dict[Way, dict[str, list[Result]]]:
    """Return results by what was tuned and shots, then by ODinW's name of the data set."""
    ways: dict[Way, dict[str, list[Result]]] = {}
    for result in run.results:
        identity = result.training.get("odinw")
        if result.task != "detection" or result.status != "ok" or identity not in SETS:
            continue
        if result.training.get("split", "test") != "test":
            continue
        shots = str(result.training.get("shots", "full"))
        tune = "" if shots == "0" else str(result.training.get("head") or result.settings.get("tune", "frozen"))
        ways.setdefault((tune, shots), {}).setdefault(SETS[identity]["name"], []).append(result)
    return ways


def _results(run: StoredRun, result: Result) -> Sequence[dict[str, Any]]:
    """Return COCO's results of one unit."""
    path = RunFolder(run.path).predictions_file(result.name, result.seed)
    try:
        columns = Ragged.from_arrays(read_arrays(path)).columns
        values = [columns[name].tolist() for name in ("image_id", "category_id", "box", "score")]
    except Exception as error:  # zipfile and NumPy raise errors of every kind over broken files
        raise DataError(
            f"{path} holds no detections: run with --setting keep_predictions=true, which keeps them"
        ) from error
    return [
        {"image_id": image, "category_id": category, "bbox": box, "score": score}
        for image, category, box, score in zip(*values, strict=True)
    ]
