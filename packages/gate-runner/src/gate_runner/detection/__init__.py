"""Detection: objects in COCO's conventions, their evaluation, and detectors that can be scored on them."""

from gate_data.boxes.objects import Objects, no_detections
from gate_runner.detection.coco_map import CocoMetrics, coco_metrics
from gate_runner.detection.scoring import match
from vision_adapters.detection import average_precisions, mean_average_precision

__all__ = [
    "CocoMetrics",
    "Objects",
    "average_precisions",
    "coco_metrics",
    "match",
    "mean_average_precision",
    "no_detections",
]
