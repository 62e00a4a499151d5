"""How good `eevee.predict` is for models that it has not seen: each model of the paper's table left out in turn.

Checked first: the 90 % intervals of the mean hold for at least 17 of 21 models (fewer has a probability of 5 % where
the level is right). Printed: coverage, mean absolute error, and that of guessing the mean of the other models.

Usage: python prediction.py [--output prediction.json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

import eevee
from gate_runner.benchmarks import PACKS

LEVEL = 0.9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "prediction.json")
    options = parser.parse_args()
    table = eevee.load_table("gate")
    columns = {metric.benchmark: index for index, metric in enumerate(table.metrics)}
    rows = []
    for index, model in enumerate(table.models):
        others = [other for other in range(len(table.models)) if other != index]
        rest = replace(
            table,
            models=tuple(table.models[other] for other in others),
            groups=tuple(table.groups[other] for other in others),
            values=table.values[others],
        )
        scores = {name: float(table.values[index, columns[name]]) for name in PACKS["small"]}
        prediction = eevee.predict(rest, list(scores), {model: scores}, level=LEVEL, mean=True).models[model]
        forecast = prediction.mean
        assert forecast is not None
        truth = float(table.values[index].mean())
        rows.append(
            {
                "model": model, "mean": truth, "predicted": forecast.value, "low": forecast.low, "high": forecast.high,
                "guess": float(rest.values.mean()), "warned": bool(prediction.outside or prediction.extrapolates),
            }
        )  # fmt: skip
    covered = sum(row["low"] <= row["mean"] <= row["high"] for row in rows)
    if covered < 17:
        raise SystemExit(f"the 90 % interval holds for {covered} of {len(rows)} models only")
    error, guess = (float(np.mean([abs(row[key] - row["mean"]) for row in rows])) for key in ("predicted", "guess"))
    width = float(np.mean([row["high"] - row["low"] for row in rows]))
    print(f"mean of {len(columns)} headline metrics from GATE's small tier, {len(rows)} models left out in turn:")
    print(f"  mean absolute error {error:.2f} points; guessing the others' mean {guess:.2f}")
    print(f"  {LEVEL:.0%} intervals, {width:.1f} points wide on average, hold for {covered} of {len(rows)} models")
    report = {
        "rows": rows, "held": covered, "error": error, "guess": guess, "width": width, "level": LEVEL,
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count()},
        "versions": {name: version(name) for name in ("gate-runner", "eevee-search", "numpy")},
    }  # fmt: skip
    options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
