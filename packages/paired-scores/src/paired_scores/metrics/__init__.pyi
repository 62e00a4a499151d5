"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .classes import by_class as by_class
from .classes import confusion as confusion
from .definitions import METRICS as METRICS
from .score import RunningScores as RunningScores
from .score import Score as Score
from .score import evaluate as evaluate
from .score import metric_named as metric_named
from .score import paired_difference as paired_difference
from .score import score_outcomes as score_outcomes
