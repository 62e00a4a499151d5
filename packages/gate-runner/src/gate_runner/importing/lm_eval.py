"""Results as lm-eval writes them, and those who follow it: ``results``, by task and ``metric,filter``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gate_runner.errors import DataError
from gate_runner.importing.entry import Entry, Reading, direction_of, interval, named, number, our_metric, score, whole

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
    model = named(_model(content), f"{path}, model_name")
    if not model:
        raise DataError(f"{path}: neither model_name nor config.model names the model; expected one of them")
    better = _mapping(content, "higher_is_better")
    counts, shots = _mapping(content, "n-samples"), _mapping(content, "n-shot")
    for task, scores in content["results"].items():
        given = whole(shots.get(task), f"{path}, n-shot of {task}", 0)
        benchmark = named(f"{task}@{given}-shot" if given else task, f"{path}, results")
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
            value = score(given_value, metric, f"{path}, {place}")
            if value is None:
                reading.skip(place, "no score")
                continue
            where = f"{path}, {task}, {metric}_stderr{comma}{way}"
            error = number(scores.get(f"{metric}_stderr{comma}{way}"), where)
            if error is not None and error < 0:
                raise DataError(f"{where} is {error:g}; expected a standard error, at least 0")
            half = math.nan if error is None else _NORMAL * error
            low, high = interval(value - half, value + half, where)
            says = better.get(task, {}).get(metric) if isinstance(better.get(task), dict) else None
            direction = direction_of(metric) if not isinstance(says, bool) else "higher" if says else "lower"
            name = named(our_metric(metric) if way in ("", "none") else f"{metric},{way}", f"{path}, {task}")
            reading.entries.append(
                Entry(
                    model,
                    benchmark,
                    "imported",
                    name,
                    value,
                    place,
                    direction,
                    low,
                    high,
                    samples=None if samples < 0 else samples,
                )
            )
        if len(reading.entries) == before:
            reading.skip(str(task), "a group without scores of its own")
    return reading


def _mapping(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = content.get(name)
    return value if isinstance(value, dict) else {}


def _model(content: Mapping[str, Any]) -> Any:
    """Return the model's name, of the fields that versions have had; ``pretrained=…`` of the arguments alone."""
    config = _mapping(content, "config")
    arguments = config.get("model_args")
    if isinstance(arguments, dict):
        model = arguments.get("pretrained") or arguments.get("model")
    else:
        parts = dict(part.partition("=")[::2] for part in str(arguments or "").split(","))
        model = parts.get("pretrained") or parts.get("model") or parts.get("model_version")
    return content.get("model_name") or model or config.get("model")
