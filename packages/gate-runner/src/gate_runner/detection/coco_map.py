"""COCO's metrics, by faster-coco-eval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gate_data.boxes.objects import Objects, checked_detections
from gate_data.original_files import without_collector
from gate_data.ragged import Ragged
from gate_runner.errors import DataError, MissingCapabilityError

_STATISTICS = (
    "map", "ap50", "ap75", "ap_small", "ap_medium", "ap_large",
    "ar1", "ar10", "ar100", "ar_small", "ar_medium", "ar_large",
)  # fmt: skip
_FIELDS = ("id", "image_id", "category_id", "bbox", "area", "iscrowd")


class CocoMetrics(NamedTuple):
    """COCO's numbers by name, and the average precision of each class; None where there is no such object.

    Classes ``without_truth`` have no object, and count nowhere.
    """

    values: dict[str, float | None]
    classes: dict[str, float | None]
    without_truth: tuple[str, ...]


def needed() -> None:
    """See that what evaluates is installed."""
    try:
        import faster_coco_eval  # noqa: F401
    except ImportError as error:
        raise MissingCapabilityError(
            "detection is scored by faster-coco-eval: pip install 'gate-runner[detection]'"
        ) from error


def coco_metrics(truth: Objects, detections: Ragged, classes: Sequence[str]) -> CocoMetrics:
    """Average precision and recall as COCO defines them, every image included, at most 100 detections a class.

    A detection's ``box`` is left, top, width and height in pixels of the original image.
    """
    needed()
    from faster_coco_eval import COCO, COCOeval_faster

    detections = checked_detections(detections, truth, len(classes))
    if not (~truth.rows.columns["crowd"]).any():
        raise DataError(f"{len(truth)} images hold no object to be found")
    with without_collector():  # it tells of its progress, and the runner has its own
        reference = COCO(as_coco(truth, classes))
        result = reference.loadRes(detections_as_coco(detections))
        run = COCOeval_faster(reference, result, "bbox", print_function=lambda *_: None)
        run.evaluate()
        run.accumulate()
    run.summarize()
    values = {name: _known(run.stats[at]) for at, name in enumerate(_STATISTICS)}
    precision = np.asarray(run.eval["precision"])[:, :, :, 0, -1]
    precisions = [precision[:, :, at] for at in range(len(classes))]
    by_class = {name: _known(values_of[values_of > -1].mean()) if (values_of > -1).any() else None
                for name, values_of in zip(classes, precisions, strict=True)}  # fmt: skip
    counts = truth.counts(len(classes))
    without = tuple(name for name, count in zip(classes, counts, strict=True) if count == 0)
    return CocoMetrics(values, by_class, without)


def as_coco(truth: Objects, classes: Sequence[str]) -> dict[str, Any]:
    """The objects as COCO's JSON; ids of images, objects and classes count from 1."""
    columns = truth.rows.columns
    rows = zip(
        range(1, len(truth.picture) + 1),
        (truth.picture + 1).tolist(),
        (columns["label"] + 1).tolist(),
        columns["box"].tolist(),
        columns["area"].tolist(),
        columns["crowd"].astype(int).tolist(),
        strict=True,
    )
    return {
        "info": {},
        "images": [
            {"id": number, "file_name": str(number), "width": int(wide), "height": int(high)}
            for number, (wide, high) in enumerate(truth.sizes, start=1)
        ],
        "categories": [{"id": number, "name": name} for number, name in enumerate(classes, start=1)],
        "annotations": [dict(zip(_FIELDS, row, strict=True)) for row in rows],
    }


def detections_as_coco(detections: Ragged) -> list[dict[str, Any]]:
    """Detections as COCO's result file."""
    picture = np.repeat(np.arange(len(detections)), detections.lengths)
    columns = detections.columns
    return [
        {"image_id": image + 1, "category_id": label + 1, "bbox": box, "score": score}
        for image, label, box, score in zip(
            picture.tolist(), columns["label"].tolist(), columns["box"].tolist(), columns["score"].tolist(), strict=True
        )
    ]


def _known(value: Any) -> float | None:
    return None if value < 0 else float(value)
