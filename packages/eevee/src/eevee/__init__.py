"""Which few benchmarks tell the rest, how surely, and at what cost."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from eevee.__about__ import __version__

if TYPE_CHECKING:
    from eevee.answers.choosing import Choice, choose_scaling, choose_scorer
    from eevee.answers.contribution import error_against_k, importance, predictiveness
    from eevee.answers.front import Front, pareto, tiers
    from eevee.answers.judging import kendall, prediction_agreement, subset_mean_agreement
    from eevee.answers.leaderboard import Board, Place, rank_models, rank_outcomes
    from eevee.answers.nested import CurvePoint, Nested, learning_curve, nested_error
    from eevee.answers.predicting import Prediction, predict
    from eevee.answers.scoring import Score, score
    from eevee.answers.selecting import Selection, read_selection, select
    from eevee.errors import EeveeError, MissingExtraError
    from eevee.items.adaptive import AdaptiveTest, Known
    from eevee.items.choice import ItemChoice, read_items
    from eevee.items.choosing import Estimate, adaptive_test, choose_items, estimate
    from eevee.items.outcomes import Outcomes, read_outcomes
    from eevee.progress import Progress
    from eevee.scorers.average import AverageScorer
    from eevee.scorers.gp import GpScorer
    from eevee.scorers.mlp import MlpScorer
    from eevee.scorers.ridge import RidgeScorer
    from eevee.scorers.scorer import Scorer
    from eevee.searching.evaluation import open_map
    from eevee.searching.space import Constraints, Space
    from eevee.showing.reporting import Report, report
    from eevee.tables.checking import Check, check
    from eevee.tables.columns import Layout
    from eevee.tables.loading import load_gate, load_shipped, load_table
    from eevee.tables.published import Published, published
    from eevee.tables.reading import read_csv_text, read_scores
    from eevee.tables.record import read_result
    from eevee.tables.standard import Standardised, overall_scores, standardise
    from eevee.tables.table import Benchmark, Metric, ResultTable
    from eevee.tables.twins import group_twins, model_distances

_LAZY = {
    "AdaptiveTest": "eevee.items.adaptive",
    "Known": "eevee.items.adaptive",
    "adaptive_test": "eevee.items.choosing",
    "Board": "eevee.answers.leaderboard",
    "Place": "eevee.answers.leaderboard",
    "rank_models": "eevee.answers.leaderboard",
    "rank_outcomes": "eevee.answers.leaderboard",
    "Estimate": "eevee.items.choosing",
    "ItemChoice": "eevee.items.choice",
    "choose_items": "eevee.items.choosing",
    "estimate": "eevee.items.choosing",
    "read_items": "eevee.items.choice",
    "Outcomes": "eevee.items.outcomes",
    "read_outcomes": "eevee.items.outcomes",
    "Choice": "eevee.answers.choosing",
    "choose_scorer": "eevee.answers.choosing",
    "choose_scaling": "eevee.answers.choosing",
    "Layout": "eevee.tables.columns",
    "load_shipped": "eevee.tables.loading",
    "AverageScorer": "eevee.scorers.average",
    "Benchmark": "eevee.tables.table",
    "Check": "eevee.tables.checking",
    "Constraints": "eevee.searching.space",
    "CurvePoint": "eevee.answers.nested",
    "EeveeError": "eevee.errors",
    "Front": "eevee.answers.front",
    "GpScorer": "eevee.scorers.gp",
    "Metric": "eevee.tables.table",
    "MissingExtraError": "eevee.errors",
    "MlpScorer": "eevee.scorers.mlp",
    "Nested": "eevee.answers.nested",
    "Prediction": "eevee.answers.predicting",
    "Progress": "eevee.progress",
    "Published": "eevee.tables.published",
    "Report": "eevee.showing.reporting",
    "ResultTable": "eevee.tables.table",
    "RidgeScorer": "eevee.scorers.ridge",
    "Score": "eevee.answers.scoring",
    "Scorer": "eevee.scorers.scorer",
    "Selection": "eevee.answers.selecting",
    "Space": "eevee.searching.space",
    "Standardised": "eevee.tables.standard",
    "check": "eevee.tables.checking",
    "error_against_k": "eevee.answers.contribution",
    "group_twins": "eevee.tables.twins",
    "importance": "eevee.answers.contribution",
    "kendall": "eevee.answers.judging",
    "learning_curve": "eevee.answers.nested",
    "load_gate": "eevee.tables.loading",
    "load_table": "eevee.tables.loading",
    "model_distances": "eevee.tables.twins",
    "nested_error": "eevee.answers.nested",
    "open_map": "eevee.searching.evaluation",
    "overall_scores": "eevee.tables.standard",
    "pareto": "eevee.answers.front",
    "predict": "eevee.answers.predicting",
    "prediction_agreement": "eevee.answers.judging",
    "predictiveness": "eevee.answers.contribution",
    "published": "eevee.tables.published",
    "read_csv_text": "eevee.tables.reading",
    "read_result": "eevee.tables.record",
    "read_scores": "eevee.tables.reading",
    "read_selection": "eevee.answers.selecting",
    "report": "eevee.showing.reporting",
    "score": "eevee.answers.scoring",
    "select": "eevee.answers.selecting",
    "standardise": "eevee.tables.standard",
    "subset_mean_agreement": "eevee.answers.judging",
    "tiers": "eevee.answers.front",
}

__all__ = [
    "AdaptiveTest",
    "AverageScorer",
    "Benchmark",
    "Board",
    "Check",
    "Choice",
    "Constraints",
    "CurvePoint",
    "EeveeError",
    "Estimate",
    "Front",
    "GpScorer",
    "ItemChoice",
    "Known",
    "Layout",
    "Metric",
    "MissingExtraError",
    "MlpScorer",
    "Nested",
    "Outcomes",
    "Place",
    "Prediction",
    "Progress",
    "Published",
    "Report",
    "ResultTable",
    "RidgeScorer",
    "Score",
    "Scorer",
    "Selection",
    "Space",
    "Standardised",
    "__version__",
    "adaptive_test",
    "check",
    "choose_items",
    "choose_scaling",
    "choose_scorer",
    "error_against_k",
    "estimate",
    "group_twins",
    "importance",
    "kendall",
    "learning_curve",
    "load_gate",
    "load_shipped",
    "load_table",
    "model_distances",
    "nested_error",
    "open_map",
    "overall_scores",
    "pareto",
    "predict",
    "prediction_agreement",
    "predictiveness",
    "published",
    "rank_models",
    "rank_outcomes",
    "read_csv_text",
    "read_items",
    "read_outcomes",
    "read_result",
    "read_scores",
    "read_selection",
    "report",
    "score",
    "select",
    "standardise",
    "subset_mean_agreement",
    "tiers",
]


def __getattr__(name: str) -> object:
    """Import a public name from its home when it is first used: torch is slow to import, `eevee --help` is not."""
    if name not in _LAZY:
        raise AttributeError(f"module 'eevee' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
