"""Detection: heads that turn patch tokens into boxes with class scores, and what trains them."""

from vision_adapters.detection.boxes import box_iou, corners, generalized_iou, nms
from vision_adapters.detection.dense import DenseHead
from vision_adapters.detection.found import Found
from vision_adapters.detection.losses import focal_loss
from vision_adapters.detection.sets import SetHead, match_sets, set_loss

__all__ = [
    "DenseHead",
    "Found",
    "SetHead",
    "box_iou",
    "corners",
    "focal_loss",
    "generalized_iou",
    "match_sets",
    "nms",
    "set_loss",
]
