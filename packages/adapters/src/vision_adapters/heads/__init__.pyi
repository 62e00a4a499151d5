"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .attentive import AttentiveHead as AttentiveHead
from .initialisation import InitializedHead as InitializedHead
from .initialisation import initial_head as initial_head
from .linear import LinearHead as LinearHead
from .linear import fixed_head as fixed_head
from .linear import global_seed as global_seed
from .linear import language_head as language_head
from .linear import seeded as seeded
from .projections import Projections as Projections
from .segmentation import SegmentationHead as SegmentationHead
from .sequences import RelationalHead as RelationalHead
from .sequences import TemporalHead as TemporalHead
