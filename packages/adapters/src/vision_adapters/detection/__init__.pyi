"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .average_precision import average_precisions as average_precisions
from .average_precision import mean_average_precision as mean_average_precision
from .boxes import Detections as Detections
from .boxes import box_convert as box_convert
from .boxes import focal_loss as focal_loss
from .boxes import generalized_iou as generalized_iou
from .boxes import topk_detections as topk_detections
from .dense import DenseHead as DenseHead
from .matching import Matches as Matches
from .matching import match_detections as match_detections
from .sets import SetHead as SetHead
from .sets import match_sets as match_sets
from .sets import set_loss as set_loss
