"""open_clip's published tables: a row for each model, a column for each data set.

Source: ``docs/openclip_results.csv`` and its siblings in mlfoundations/open_clip. They do not name the metric of a
column: it is given here for those whose values are CLIP_benchmark's own of that metric for the same models.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gate_runner.errors import DataError
from gate_runner.importing.entry import Entry, Reading, Rows, named, our_metric, score

_ABOUT = ("name", "model", "pretrained", "version", "params (M)", "FLOPs (B)")
_ACCURACY = frozenset({
    "ImageNet 1k", "CIFAR-10", "CIFAR-100", "Country211", "ImageNet Sketch", "ImageNet v2", "ImageNet-A", "ImageNet-R",
    "ObjectNet", "Pascal VOC 2007", "SUN397", "STL-10", "GTSRB", "RESISC45", "CLEVR Counts", "KITTI Vehicle Distance",
})  # fmt: skip
_RECALL = frozenset({"Caltech-101", "Oxford Flowers-102", "Oxford-IIIT Pet"})
_RETRIEVAL = re.compile(r"(.+) (image|text) retr\. R@(\d+)")
_LANGUAGE = re.compile(r"(\S+) ((?:image|text)_retrieval_recall@\d+) (\S+)")
_MEAN = re.compile(r"average|avg\b", re.IGNORECASE)


def is_csv(header: Sequence[str]) -> bool:
    """Whether a header is that of one of the published tables."""
    return list(header[:2]) in (["name", "pretrained"], ["model", "version"]) and len(header) > 2


def read_csv(rows: Rows, path: str) -> Reading:
    """Read every cell of a data set; columns that are means of others are left out."""
    reading = Reading("open_clip")
    for line, row in rows:
        model = named(" ".join(filter(None, [*row.values()][:2])), f"{path}, line {line}, model")
        if not model:
            raise DataError(f"{path}, line {line}: the model is empty; expected its name")
        for column, text in row.items():
            if column in _ABOUT:
                continue
            if _MEAN.search(column) and "jaccard" not in column:
                reading.skip(f"column {column}", "a mean of others")
                continue
            benchmark, task, metric = _named(named(column, f"{path}, line 1"))
            value = score(text, "acc" if metric == "score" else metric, f"{path}, line {line}, {column}")
            if value is None:
                reading.skip(f"line {line}, {column}", "no score")
                continue
            reading.entries.append(Entry(model, benchmark, task, metric, value, f"line {line}, {column}"))
    return reading


def _named(column: str) -> tuple[str, str, str]:
    """Return data set, task type and metric of a column."""
    if match := _RETRIEVAL.fullmatch(column):
        return match[1], "zero-shot-retrieval", our_metric(f"{match[2]}_retrieval_recall@{match[3]}")
    if match := _LANGUAGE.fullmatch(column):
        data = match[1] if match[3] == "en" else f"{match[1]}@{match[3]}"
        return data, "zero-shot-retrieval", our_metric(match[2])
    if "jaccard" in column:
        data, _, metric = column.partition(" ")
        return data, "image-text", metric
    metric = "acc@1" if column in _ACCURACY else "mean_per_class_recall" if column in _RECALL else "score"
    return column, "zero-shot", metric
