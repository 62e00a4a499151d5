"""ODinW's published scores, beside those of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gate_data.tables import read_table
from gate_runner.tasks.task import Details


def details(training: Mapping[str, Any], encoder: str) -> Details:
    """Average precision of each class, and published scores of the same set, marked where split or prompts differ."""
    split = str(training.get("split", "test"))
    score = training.get("coco", {}).get("map")
    notes = [f"Scored on the {split} split; COCO's mean average precision, in percent."]
    absent = training.get("without_truth") or []
    if absent:
        notes.append(f"Without an object there, and counted nowhere: {', '.join(absent)}.")
    read = (training.get("prompts") or {}).get("read")
    if read:
        notes.append(f"Read by the detector: {'; '.join(read)}.")
    rows = [["this run", _percent(score), split, _how(training), (training.get("prompts") or {}).get("kind", "none")]]
    for model in read_table("odinw_published")["models"]:
        value = model["map"].get(training.get("odinw"))
        if value is not None:
            note = "" if model["split"] == split else " (other)"
            rows.append([model["name"], f"{value:.1f}", model["split"] + note, model["training"], model["prompts"]])
    rows += [[f"class {name}", _percent(value), split, "", ""] for name, value in training.get("classes", {}).items()]
    return Details(notes, ("model or class", "mAP", "split", "training", "prompts"), rows, (2, 3, 4))


def _percent(value: float | None) -> str:
    return "no object" if value is None else f"{100 * value:.1f}"


def _how(training: Mapping[str, Any]) -> str:
    shots = str(training.get("shots", "full"))
    method = f"{training['head']} head" if "head" in training else "zero-shot" if shots == "0" else "tuned"
    return method if shots == "0" else f"{method}, {'all pictures' if shots == 'full' else f'{shots} shots'}"
