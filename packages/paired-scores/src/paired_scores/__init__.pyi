"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .__about__ import __version__ as __version__
from .best import worse_than_another as worse_than_another
from .metrics import METRICS as METRICS
from .metrics import RunningScores as RunningScores
from .metrics import Score as Score
from .metrics import by_class as by_class
from .metrics import confusion as confusion
from .metrics import evaluate as evaluate
from .metrics import metric_named as metric_named
from .metrics import paired_difference as paired_difference
from .metrics import score_outcomes as score_outcomes
from .paired import benjamini_hochberg as benjamini_hochberg
from .paired import holm as holm
from .paired import paired_test as paired_test
from .power import power_of_outcomes as power_of_outcomes
from .power import samples_needed as samples_needed
