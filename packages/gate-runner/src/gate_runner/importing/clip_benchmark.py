"""CLIP_benchmark's results: the JSON of an evaluation, and the CSV that its ``build`` makes of several."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from gate_runner.errors import DataError
from gate_runner.importing.entry import Entry, Reading, Rows, direction_of, named, our_metric, score, whole

_TASKS = {
    "zeroshot_classification": "zero-shot",
    "linear_probe": "image-classification",
    "zeroshot_retrieval": "zero-shot-retrieval",
    "image_caption_selection": "pair-scoring",
    "captioning": "captioning",
}
_ABOUT = frozenset({
    "dataset", "model", "pretrained", "task", "language", "model_fullname", "classnames", "templates", "metrics",
    "weight_decay", "epochs", "seed", "fewshot_k", "normalized", "downstream_dataset", "arch", "samples_seen",
    "gmacs", "gmacs_total", "macts", "upstream_dataset", "samples_seen_pretty", "pretrained_short", "",
})  # fmt: skip
_SCORE = re.compile(
    r"(lp_)?(acc\d*|acc@\d+|mean_per_class_recall|mean_average_precision)|(image|text)_retrieval_recall@\d+"
    r"|(image|text|group|text_to_image|image_to_text)_?acc|(avg_)?jaccard_score.*|Bleu_\d|METEOR|ROUGE_L|CIDEr|SPICE"
)


def is_csv(header: Iterable[str]) -> bool:
    """Whether a header is that of the ``build`` command, or of the repository's own tables."""
    names = set(header)
    return "task" in names and ({"dataset", "model"} <= names or {"downstream_dataset", "model_fullname"} <= names)


def is_json(content: Any) -> bool:
    """Whether a JSON file's content is one evaluation."""
    return isinstance(content, dict) and {"dataset", "model", "task", "metrics"} <= set(content)


def read_csv(rows: Rows, path: str) -> Reading:
    """Read every row's scores, of all its metrics."""
    reading = Reading("CLIP_benchmark")
    for line, row in rows:
        _row(reading, row, {name: text for name, text in row.items() if name not in _ABOUT}, path, f"line {line}")
    return reading


def read_json(content: Mapping[str, Any], path: str) -> Reading:
    """Read one evaluation's scores."""
    reading = Reading("CLIP_benchmark")
    metrics = content["metrics"]
    if not isinstance(metrics, dict):
        raise DataError(f"{path}: field metrics is {metrics!r:.60}; expected names and numbers")
    about = {**content, **{name: value for name, value in metrics.items() if name in _ABOUT}}
    _row(reading, about, {name: value for name, value in metrics.items() if name not in _ABOUT}, path, "field metrics")
    return reading


def _row(reading: Reading, about: Mapping[str, Any], metrics: Mapping[str, Any], path: str, place: str) -> None:
    model, data = (
        _model(about, f"{path}, {place}"),
        named(about.get("dataset") or about.get("downstream_dataset"), f"{path}, {place}, dataset"),
    )
    if not model or not data:
        raise DataError(f"{path}, {place}: the {'data set' if model else 'model'} is empty; expected its name")
    task = named(about.get("task"), f"{path}, {place}, task")
    shots = whole(
        about.get("fewshot_k") if number_like(about.get("fewshot_k")) else None, f"{path}, {place}, fewshot_k", 0
    )
    seed = whole(about.get("seed"), f"{path}, {place}, seed", 0)
    ending = [f"{shots}-shot" if shots else "linear-probe"] if task == "linear_probe" else []
    language = named(about.get("language"), f"{path}, {place}, language", "en")
    ending += [language] if language != "en" else []
    name = data.removeprefix("wds/")
    benchmark = f"{name}@{','.join(ending)}" if ending else name
    values = []
    for metric, given in metrics.items():
        if not _SCORE.fullmatch(metric):
            reading.skip(f"column {metric}", "not a score that is known")
            continue
        value = score(given, metric, f"{path}, {place}, {metric}")
        if value is not None:
            values.append(
                Entry(
                    model,
                    benchmark,
                    _TASKS.get(task, task or "unknown"),
                    our_metric(metric),
                    value,
                    place,
                    direction_of(metric),
                    seed=seed,
                )
            )
    if not values:
        reading.skip(place, "no score")
    reading.entries += values


def number_like(value: Any) -> bool:
    """Whether a number of shots is given; -1 is all images."""
    return value not in (None, "", "-1", "-1.0", -1, -1.0)


def _model(about: Mapping[str, Any], place: str) -> str:
    if about.get("model"):
        parts = [named(about.get(name), f"{place}, {name}") for name in ("model", "pretrained")]
        return " ".join(filter(None, parts))
    return named(about.get("model_fullname"), f"{place}, model_fullname")
