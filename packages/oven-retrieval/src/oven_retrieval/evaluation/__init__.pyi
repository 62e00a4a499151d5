"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .curves import POPULARITY_EDGES as POPULARITY_EDGES
from .curves import Bin as Bin
from .curves import SizePoint as SizePoint
from .curves import accuracy_by_popularity as accuracy_by_popularity
from .curves import accuracy_by_size as accuracy_by_size
from .curves import wilson as wilson
from .errors import KINDS as KINDS
from .errors import KindShare as KindShare
from .errors import error_kinds as error_kinds
from .errors import is_kind_of as is_kind_of
from .errors import kind_shares as kind_shares
from .figures import popularity_figure as popularity_figure
from .figures import size_figure as size_figure
from .files import Prediction as Prediction
from .files import Reference as Reference
from .files import read_predictions as read_predictions
from .files import read_references as read_references
from .honest import Estimate as Estimate
from .honest import Outcomes as Outcomes
from .honest import Scores as Scores
from .honest import SplitScores as SplitScores
from .honest import outcomes as outcomes
from .honest import scores as scores
from .honest import split_scores as split_scores
from .nearness import near_by_vectors as near_by_vectors
from .official import OfficialScores as OfficialScores
from .official import OfficialSplit as OfficialSplit
from .official import harmonic_mean as harmonic_mean
from .official import official_scores as official_scores
from .official import official_split as official_split
from .page import PageSource as PageSource
from .page import read_sizes as read_sizes
from .page import results_page as results_page
from .page import write_page as write_page
from .report import evaluate_splits as evaluate_splits
from .report import read_splits as read_splits
from .report import report_lines as report_lines
