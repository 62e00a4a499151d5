"""Results as lm-eval writes them, and those who follow it: ``results``, by task and ``metric,filter``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gate_runner.errors import DataError
from gate_runner.importing.entry import Entry, Reading, direction_of, number, our_metric, whole

_NORMAL = 1.959964
"""Standard errors to an end of a 95 % interval."""


def is_json(content: Any) -> bool:
    """Whether a JSON file's content has ``results`` by task."""
    if not isinstance(content, dict) or not isinstance(content.get("results"), dict):
        return False
    return all(isinstance(scores, dict) for scores in content["results"].values())


def read_json(content: Mapping[str, Any], path: str) -> Reading:
    """Read every task's metrics; a standard error becomes an interval."""
    reading = Reading("lm-eval")
    model = _model(content)
    if not model:
        raise DataError(f"{path}: neither model_name nor config.model names the model; expected one of them")
    better = _mapping(content, "higher_is_better")
    counts, shots = _mapping(content, "n-samples"), _mapping(content, "n-shot")
    for task, scores in content["results"].items():
        given = whole(shots.get(task), f"{path}, n-shot of {task}", 0)
        benchmark = f"{task}@{given}-shot" if given else str(task)
        size = counts.get(task)
        size = size.get("effective") if isinstance(size, dict) else size
        samples = whole(size, f"{path}, n-samples of {task}", -1)
        before = len(reading.entries)
        for key, given_value in scores.items():
            metric, comma, way = str(key).partition(",")
            if metric in ("alias", "samples", "name", "sample_len") or metric.endswith("_stderr"):
                continue
            place = f"{task}, {key}"
            if isinstance(given_value, str | dict | list):
                reading.skip(place, "not a number")
                continue
            value = number(given_value, f"{path}, {place}")
            if value is None:
                reading.skip(place, "no score")
                continue
            error = scores.get(f"{metric}_stderr{comma}{way}")
            half = _NORMAL * error if isinstance(error, int | float) and not isinstance(error, bool) else math.nan
            says = better.get(task, {}).get(metric) if isinstance(better.get(task), dict) else None
            direction = direction_of(metric) if not isinstance(says, bool) else "higher" if says else "lower"
            name = our_metric(metric) if way in ("", "none") else f"{metric},{way}"
            reading.entries.append(
                Entry(
                    model,
                    benchmark,
                    "imported",
                    name,
                    value,
                    place,
                    direction,
                    value - half,
                    value + half,
                    samples=None if samples < 0 else samples,
                )
            )
        if len(reading.entries) == before:
            reading.skip(str(task), "a group without scores of its own")
    return reading


def _mapping(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = content.get(name)
    return value if isinstance(value, dict) else {}


def _model(content: Mapping[str, Any]) -> str:
    """Return the model's name, of the fields that versions have had; ``pretrained=…`` of the arguments alone."""
    config = _mapping(content, "config")
    arguments = config.get("model_args")
    if isinstance(arguments, dict):
        named = str(arguments.get("pretrained") or arguments.get("model") or "")
    else:
        parts = dict(part.partition("=")[::2] for part in str(arguments or "").split(","))
        named = parts.get("pretrained") or parts.get("model") or parts.get("model_version") or ""
    return str(content.get("model_name") or named or config.get("model") or "").strip()
