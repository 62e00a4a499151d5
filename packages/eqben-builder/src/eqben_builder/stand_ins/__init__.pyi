"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .data import Boxes as Boxes
from .data import DrawnSet as DrawnSet
from .data import DrawnSplit as DrawnSplit
from .described import TEXTS as TEXTS
from .described import Texts as Texts
from .registry import STAND_INS as STAND_INS
