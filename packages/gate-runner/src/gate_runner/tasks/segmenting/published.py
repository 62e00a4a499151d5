"""Published mIoU of zero-shot segmentation with sources, and the settings behind them; without torch."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from statistics import fmean
from typing import Any

from gate_runner.charts.table import Table
from gate_runner.tasks.segmenting.presets import PRESETS, SETS

NAMES = {
    "voc21": "VOC21", "context60": "Context60", "coco-object": "Object", "voc20": "VOC20", "pascal": "Context59",
    "coco-164k": "Stuff", "cityscapes": "City", "ade20k": "ADE20K",
}  # fmt: skip
"""What published tables call the eight sets."""
WARNING = (
    "Rows of different presets are not comparable: side, windows, scale, words and threshold differ. Thresholds are "
    "fixed by set and method with no validation shown."
)


@cache
def published() -> tuple[dict[str, Any], ...]:
    """Return the published rows.

    Example:
        >>> published()[2]["method"], published()[2]["scores"]["voc21"]
        ('SCLIP', 59.63)
    """
    text = (files("gate_runner.tasks.segmenting") / "published.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text)["rows"])


def published_table() -> Table:
    """Return the published rows, the mean of eight where a row has all."""
    heads = ("Method", "Encoder", *NAMES.values(), "mean", "preset", "also used", "source")
    rows = []
    for row in published():
        scores = row["scores"]
        cells = [f"{scores[name]}" if name in scores else "–" for name in SETS]
        mean = f"{fmean(scores.values()):.1f}" if len(scores) == len(SETS) else "–"
        rows.append((row["method"], row["encoder"], *cells, mean, row.get("preset", "–"), row["used"], row["source"]))
    note = "A row with a preset is the paper's own. Others are as the named source prints them, under its own settings."
    return Table(
        "published-word-maps", "Published mIoU in percent", heads, tuple(rows), note, (1, 11, 12, 13), warning=WARNING
    )


def presets_table() -> Table:
    """Return side, window, stride, scale and threshold of every preset by set."""
    heads = ("Preset", "set", "short side", "window", "stride", "scale", "threshold", "least area", "refinement")
    rows = []
    for preset in PRESETS.values():
        if preset.side is None:
            continue
        for name in SETS:
            own = preset.of_set(name)
            cells = (own.side, own.window or "whole image", own.stride if own.window else "–", f"{own.scale:g}")
            least = f"{own.least_area:g}" if own.least_area else "–"
            threshold = f"{own.threshold:g}" if own.threshold else "none"
            rows.append((preset.name, NAMES[name], *map(str, cells), threshold, least, own.refine))
    note = "From the published code: " + "; ".join(f"{p.name}: {p.source}" for p in PRESETS.values() if p.side) + "."
    return Table("word-map-presets", "Settings by preset and set", heads, tuple(rows), note, (1, 8))
