"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .__about__ import __version__ as __version__
from .answers.forecasting import Forecast as Forecast
from .answers.forecasting import forecast as forecast
from .answers.leaderboard import Ranking as Ranking
from .answers.leaderboard import rank_models as rank_models
from .answers.leaderboard import rank_outcomes as rank_outcomes
from .answers.nested import Nested as Nested
from .answers.pareto_front import ParetoFront as ParetoFront
from .answers.pareto_front import pareto as pareto
from .answers.pareto_front import tiers as tiers
from .answers.predicting import Prediction as Prediction
from .answers.predicting import predict as predict
from .answers.scoring import Score as Score
from .answers.scoring import score as score
from .answers.selecting import Selection as Selection
from .answers.selecting import read_selection as read_selection
from .answers.selecting import select as select
from .errors import EeveeError as EeveeError
from .items.adaptive import AdaptiveTest as AdaptiveTest
from .items.outcomes import Outcomes as Outcomes
from .items.reading import read_outcomes as read_outcomes
from .items.selection import adaptive_test as adaptive_test
from .items.selection import choose_items as choose_items
from .items.selection import estimate as estimate
from .items.subset import ItemChoice as ItemChoice
from .items.subset import read_items as read_items
from .reports.report import report as report
from .scorers.completion import LowRankScorer as LowRankScorer
from .scorers.gp import GpScorer as GpScorer
from .scorers.mlp import MlpScorer as MlpScorer
from .scorers.named import AverageScorer as AverageScorer
from .scorers.ridge import RidgeScorer as RidgeScorer
from .scorers.scorer import Scorer as Scorer
from .tables.checking import Check as Check
from .tables.checking import check as check
from .tables.holdout import group_twins as group_twins
from .tables.loading import load_table as load_table
from .tables.loading import published as published
from .tables.reading import read_scores as read_scores
from .tables.standard import Standardised as Standardised
from .tables.standard import standardise as standardise
from .tables.table import Benchmark as Benchmark
from .tables.table import Metric as Metric
from .tables.table import ResultTable as ResultTable
