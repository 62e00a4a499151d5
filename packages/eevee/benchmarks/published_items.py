"""Items chosen from published tables of real models: benchmark-prediction's, as its repository holds them.

    python packages/eevee/benchmarks/published_items.py FOLDER

FOLDER is `data/scores` of https://github.com/socialfoundations/benchmark-prediction: language models of HELM and the
Open LLM Leaderboard, and fine-tuned ones on GLUE. First every array is compared with what joblib reads. Then
5 % of each table's items are chosen: RMSE on held-out models of drawn items, gp-IRT, anchors, and a plain mean of as
many random items, in points; and which share of all values was read.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import joblib
import numpy as np
from _setting import record

from eevee import choose_items, read_outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    files = sorted(parser.parse_args().folder.glob("*.jbl"))
    outcomes = read_outcomes(files)
    result: dict[str, object] = {"files": len(files), "tables": len(outcomes)}
    for key, bench in outcomes.items():
        published = joblib.load(next(file for file in files if file.stem == key))
        np.testing.assert_array_equal(bench.values, published)
        chosen = choose_items({key: bench}).benchmarks[key]
        errors = {f"{name}, RMSE, points": round(100 * error, 2) for name, error in chosen.errors.items()}
        result[key] = {"models": len(bench.models), "items": len(bench.items), "chosen": len(chosen.items), **errors}
        print(key, result[key], flush=True)
    record(Path(__file__).stem, result)


if __name__ == "__main__":
    main()
