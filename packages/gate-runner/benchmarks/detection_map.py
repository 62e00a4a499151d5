"""Time of COCO's metrics on many boxes: faster-coco-eval, our matched outcomes, and pycocotools, in processor seconds.

All three begin with the same objects and detections in memory; what a way has to turn them into is part of its time. No
time is printed unless all three give the same mean average precision to 1e-12. Writes ``results/detection_map.json``.

python benchmarks/detection_map.py [--images 5000] [--boxes 100] [--classes 20]
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

from gate_data.boxes.objects import Objects
from gate_data.ragged import Ragged
from gate_runner.detection.coco_map import as_coco, coco_metrics, detections_as_coco
from gate_runner.detection.scoring import match
from vision_adapters.detection import mean_average_precision


def sample_detections(images: int, boxes: int, classes: int) -> tuple[Objects, Ragged]:
    """A tenth as many objects as detections."""
    rng = np.random.default_rng(0)
    truths, founds = [], []
    for _ in range(images):
        count = max(1, boxes // 10)
        box = np.concatenate([rng.uniform(0, 500, (count, 2)), rng.uniform(8, 140, (count, 2))], axis=1)
        label = rng.integers(0, classes, count)
        far = np.concatenate([rng.uniform(0, 500, (boxes - count, 2)), rng.uniform(8, 140, (boxes - count, 2))], axis=1)
        near = box + rng.normal(0, 4, box.shape)
        near[:, 2:] = np.maximum(near[:, 2:], 1)
        truths.append({"box": box, "label": label})
        labels = np.concatenate([label, rng.integers(0, classes, boxes - count)])
        founds.append({"box": np.concatenate([near, far]), "label": labels, "score": rng.random(boxes)})
    return Objects.of(truths, [(640, 640)] * images), Ragged.of(founds)


def reference(truth: Objects, ragged: Ragged, names: list[str]) -> float:
    """pycocotools, from the same files' contents."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = copy.deepcopy(as_coco(truth, names))
        coco.createIndex()
        run = COCOeval(coco, coco.loadRes(detections_as_coco(ragged)), "bbox")
        run.evaluate()
        run.accumulate()
        run.summarize()
    return float(run.stats[0])


def timed(call: Callable[[], float | None]) -> tuple[float, float]:
    """Processor seconds, and the value."""
    start = time.process_time()
    value = call()
    return time.process_time() - start, float(value or 0.0)


def main() -> None:
    """Print a line for each, and write all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, count in (("images", 5000), ("boxes", 100), ("classes", 20)):
        parser.add_argument(f"--{name}", type=int, default=count)
    options = parser.parse_args()
    truth, detections = sample_detections(options.images, options.boxes, options.classes)
    names = [str(index) for index in range(options.classes)]
    once = np.ones((1, options.images))
    ways = {
        "pycocotools": lambda: reference(truth, detections, names),
        "faster-coco-eval": lambda: coco_metrics(truth, detections, names).values["map"],
        "matched outcomes": lambda: float(mean_average_precision(match(truth, detections), once)[0]),
    }
    measured = {name: timed(call) for name, call in ways.items()}
    first, right = measured["pycocotools"]
    for name, (_, value) in measured.items():
        if abs(value - right) > 1e-12:
            raise SystemExit(f"{name} gives a map of {value!r}, pycocotools {right!r}: no times")
    rows = []
    for name, (seconds, value) in measured.items():
        rows.append({"way": name, "cpu_seconds": seconds, "times_as_fast": first / seconds, "map": value})
        print(f"{name}: {seconds:.1f} s, {first / seconds:.1f} times as fast, map {value:.12f}", flush=True)
    result = {
        "rows": rows, **vars(options), "processor": platform.processor() or platform.machine(), "cores": os.cpu_count(),
        "versions": {name: version(name) for name in ("pycocotools", "faster-coco-eval", "numpy")},
    }  # fmt: skip
    path = Path(__file__).parent / "results" / "detection_map.json"
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
