"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .average_precision import mean_average_precision as mean_average_precision
from .boxes import Detections as Detections
from .boxes import box_convert as box_convert
from .boxes import topk_detections as topk_detections
from .dense import DenseHead as DenseHead
from .matching import match_detections as match_detections
