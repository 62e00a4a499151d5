"""Detection: heads from patch tokens to boxes with class scores, what trains them, and COCO's average precision."""

from vision_adapters.detection.average_precision import average_precisions, mean_average_precision
from vision_adapters.detection.boxes import Detections, box_convert, focal_loss, generalized_iou, topk_detections
from vision_adapters.detection.dense import DenseHead
from vision_adapters.detection.matching import Matches, match_detections
from vision_adapters.detection.sets import SetHead, match_sets, set_loss

__all__ = [
    "DenseHead",
    "Detections",
    "Matches",
    "SetHead",
    "average_precisions",
    "box_convert",
    "focal_loss",
    "generalized_iou",
    "match_detections",
    "match_sets",
    "mean_average_precision",
    "set_loss",
    "topk_detections",
]
