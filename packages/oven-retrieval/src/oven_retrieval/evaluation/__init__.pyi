"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .curves import accuracy_by_popularity as accuracy_by_popularity
from .curves import accuracy_by_size as accuracy_by_size
from .errors import KINDS as KINDS
from .errors import error_kinds as error_kinds
from .errors import kind_shares as kind_shares
from .figures import Line as Line
from .figures import bar_figure as bar_figure
from .figures import line_figure as line_figure
from .files import Prediction as Prediction
from .files import Reference as Reference
from .intervals import Estimate as Estimate
from .intervals import accuracy as accuracy
from .intervals import effective_size as effective_size
from .intervals import wilson as wilson
from .page import write_page as write_page
from .scores import evaluate_splits as evaluate_splits
from .scores import harmonic_mean as harmonic_mean
from .scores import model_table as model_table
from .scores import outcomes as outcomes
from .scores import read_splits as read_splits
from .scores import report_lines as report_lines
from .scores import split_scores as split_scores
