"""How long scoring a suite takes once its features are there: 25,000 questions of one caption and four wrong ones.

    python packages/eqben-builder/benchmarks/suite_speed.py [--questions 25000] [--dimensions 512] [--output FILE]

Made-up unit features of 5,000 pictures and of every caption, five questions a picture, captions of 6 to 12 words out of
2,000. Correctness first: the first 200 questions are scored by loops, and no figure is printed when one differs. Then
CPU and wall seconds of the similarities, and of the table with its intervals, its blind lines and its paired test;
memory is the process's peak above what it held when the features were made.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

import numpy as np
from reporting import report

from eqben_builder.formats import Picture
from eqben_builder.suites import SUITES, Features, SuiteData, SuiteRow, similarities, suite_table


def made_up(questions: int, dimensions: int) -> tuple[list[SuiteRow], Features]:
    rng = np.random.default_rng(0)
    words = np.array([f"word{k}" for k in range(2000)])
    pictures = [Picture(Path(f"{k}.jpg")) for k in range(questions // 5)]
    rows, at = [], {}
    for k in range(questions):
        chosen = rng.choice(words, rng.integers(6, 13))
        texts = [" ".join(chosen), *(" ".join(rng.permutation(chosen)) for _ in range(4))]
        picture = pictures[k // 5 % len(pictures)]
        rows.append(SuiteRow(str(k), "coco_order", "captions", (picture,), tuple(texts), picture.name))
        for text in texts:
            at.setdefault(text, len(at))

    def unit(count: int) -> np.ndarray:
        features = rng.standard_normal((count, dimensions), dtype=np.float32)
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        return features

    places = {picture: k for k, picture in enumerate(pictures)}
    return rows, Features(unit(len(pictures)), unit(len(at)), places, at)


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=25_000)
    parser.add_argument("--dimensions", type=int, default=512)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows, features = made_up(options.questions, options.dimensions)
    megabytes = peak_megabytes()
    cpu, wall = time.process_time(), time.perf_counter()
    values = similarities(rows, features)
    similar = time.process_time() - cpu
    table = suite_table(SuiteData(SUITES["aro"], rows, {}, {}, ()), values)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    right = table.outcomes["accuracy"].right
    for k, row in enumerate(rows[:200]):
        image = features.images[features.image_at[row.images[0]]].astype(float)
        scores = [float(image @ features.texts[features.text_at[text]].astype(float)) for text in row.captions]
        if right[k] != (scores[0] > max(scores[1:])):
            sys.exit(f"FAILED: question {k}: {scores} is said to be {right[k]}")
    result = {
        "questions": options.questions,
        "captions": len(features.text_at),
        "dimensions": options.dimensions,
        "similarities_cpu_seconds": round(similar, 2),
        "all_cpu_seconds": round(cpu, 2),
        "all_wall_seconds": round(wall, 2),
        "megabytes_above_features": round(peak_megabytes() - megabytes),
        "megabytes_in_all": round(peak_megabytes()),
        "numpy": np.__version__,
    }
    report(result, options.output)


if __name__ == "__main__":
    main()
