"""Detection: heads that turn patch tokens into boxes with class scores, and what trains them."""

from vision_adapters.detection.boxes import Detections, box_convert, focal_loss, generalized_iou, topk_detections
from vision_adapters.detection.dense import DenseHead
from vision_adapters.detection.sets import SetHead, match_sets, set_loss

__all__ = [
    "DenseHead",
    "Detections",
    "SetHead",
    "box_convert",
    "focal_loss",
    "generalized_iou",
    "match_sets",
    "set_loss",
    "topk_detections",
]
