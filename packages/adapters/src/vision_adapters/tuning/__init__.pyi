"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .data import HeldOut as HeldOut
from .data import Tuned as Tuned
from .data import TuningData as TuningData
from .data import tuning_data as tuning_data
from .folds import Fold as Fold
from .folds import make_folds as make_folds
from .methods import METHODS as METHODS
from .methods import linear_probe as linear_probe
from .methods import tune as tune
from .projection import fit_projection as fit_projection
from .unlabelled import Transduced as Transduced
from .unlabelled import transduce as transduce
