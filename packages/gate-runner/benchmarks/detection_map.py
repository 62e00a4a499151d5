"""Time of COCO's metrics on many boxes: faster-coco-eval, our matched outcomes, and pycocotools, in processor seconds.

python packages/gate-runner/benchmarks/detection_map.py [IMAGES] [BOXES] [CLASSES]
"""

from __future__ import annotations

import contextlib
import copy
import io
import sys
import time
from collections.abc import Callable

import numpy as np

from gate_runner.detection import Objects, coco_metrics, match, mean_average_precision
from gate_runner.detection.coco_map import as_coco, detections_as_coco
from gate_runner.ragged import Ragged


def made(images: int, boxes: int, classes: int) -> tuple[Objects, Ragged]:
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


def reference(truth: Objects, found: Ragged, names: list[str]) -> float:
    """pycocotools, from the same files' contents."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        one = COCO()
        one.dataset = copy.deepcopy(as_coco(truth, names))
        one.createIndex()
        run = COCOeval(one, one.loadRes(detections_as_coco(found)), "bbox")
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
    """Print a line for each."""
    images, boxes, classes = (int(word) for word in [*sys.argv[1:], *("5000", "100", "20")[len(sys.argv) - 1 :]])
    truth, found = made(images, boxes, classes)
    names = [str(place) for place in range(classes)]
    once = np.ones((1, images))
    ways = {
        "pycocotools": lambda: reference(truth, found, names),
        "faster-coco-eval": lambda: coco_metrics(truth, found, names).values["map"],
        "matched outcomes": lambda: float(mean_average_precision(match(truth, found), once)[0]),
    }
    first = None
    for name, call in ways.items():
        seconds, value = timed(call)
        first = seconds if first is None else first
        print(f"{name}: {seconds:.1f} s, {first / seconds:.1f} times as fast, map {value:.12f}")


if __name__ == "__main__":
    main()
