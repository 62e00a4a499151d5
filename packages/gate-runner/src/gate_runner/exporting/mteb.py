"""MTEB's result files: a folder per model and revision, a JSON file per task."""

from __future__ import annotations

import json
import re

from gate_runner.__about__ import __version__
from gate_runner.exporting.model import Files, ModelName, file_names, means
from gate_runner.runs.stored import StoredRun


def files(run: StoredRun, model: ModelName, organization: str) -> Files:
    """``results/DEVELOPER__NAME/REVISION/TASK.json`` and ``model_meta.json``, as ``mteb`` lays them out.

    MTEB's own tasks have other splits and heads, so a task is called ``GateRunner-…`` and its scores stand beside
    MTEB's, not in their place. The revision is the beginning of the fingerprint of the weights.
    """
    encoder = run.manifest["identity"]["encoder"]
    revision = re.sub(r"[^A-Za-z0-9]+", "-", str(encoder.get("fingerprint") or "unknown"))[:40]
    folder = f"results/{model.developer}__{model.name}/{revision}"
    about = {
        "name": model.id,
        "revision": revision,
        "n_parameters": encoder.get("parameters"),
        "modalities": ["image", *(["text"] if "text" in encoder.get("provides", ()) else [])],
        "framework": ["PyTorch"],
    }
    contents = {f"{folder}/model_meta.json": _text(about)}
    rows = means(run)
    stems = file_names(dict.fromkeys(row.published for row in rows))
    for name in dict.fromkeys(row.name for row in rows):
        mine = [row for row in rows if row.name == name]
        first = next(result for result in run.named(name) if result.status == "ok")
        scores = {row.metric: row.value for row in mine}
        bounds = {f"{row.metric}_{end}": getattr(row, end) for row in mine for end in ("low", "high", "chance")}
        task = f"GateRunner-{stems[mine[0].published]}"
        split = {"hf_subset": "default", "languages": ["eng-Latn"], "main_score": mine[0].value, **scores, **bounds}
        contents[f"{folder}/{task}.json"] = _text(
            {
                "dataset_revision": str(first.data.get("sha256")),
                "task_name": task,
                "mteb_version": f"gate-runner {__version__}",
                "evaluation_time": sum(result.seconds.get("total", 0.0) for result in run.named(name)),
                "kg_co2_emissions": None,
                "scores": {"test": [split]},
            }
        )
    return Files(contents)


def _text(content: object) -> str:
    return json.dumps(content, indent=2, allow_nan=False) + "\n"
