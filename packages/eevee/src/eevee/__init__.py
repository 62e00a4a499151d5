"""Which few benchmarks tell the rest, how surely, and at what cost."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from eevee.__about__ import __version__

if TYPE_CHECKING:
    from eevee.checking import Check, check
    from eevee.contribution import error_against_k, importance, predictiveness
    from eevee.errors import EeveeError, MissingExtraError
    from eevee.executors import open_map
    from eevee.front import Front, pareto, tiers
    from eevee.gate import Published, load_gate, published
    from eevee.mlp import MlpScorer
    from eevee.nested import CurvePoint, Nested, learning_curve, nested_error
    from eevee.predicting import Prediction, predict
    from eevee.ranking import kendall, overall_scores, prediction_agreement, subset_mean_agreement
    from eevee.reading import load_table, read_csv_text, read_scores
    from eevee.record import read_result
    from eevee.reporting import Report, report
    from eevee.ridge import RidgeScorer
    from eevee.scoring import Score, score
    from eevee.selecting import Selection, read_selection, select
    from eevee.space import Constraints, Space
    from eevee.table import Benchmark, Metric, ResultTable
    from eevee.twins import group_twins, model_distances

_HOMES = {
    "checking": ("Check", "check"),
    "contribution": ("error_against_k", "importance", "predictiveness"),
    "errors": ("EeveeError", "MissingExtraError"),
    "executors": ("open_map",),
    "front": ("Front", "pareto", "tiers"),
    "gate": ("Published", "load_gate", "published"),
    "mlp": ("MlpScorer",),
    "nested": ("CurvePoint", "Nested", "learning_curve", "nested_error"),
    "predicting": ("Prediction", "predict"),
    "ranking": ("kendall", "overall_scores", "prediction_agreement", "subset_mean_agreement"),
    "reading": ("load_table", "read_csv_text", "read_scores"),
    "record": ("read_result",),
    "reporting": ("Report", "report"),
    "ridge": ("RidgeScorer",),
    "scoring": ("Score", "score"),
    "selecting": ("Selection", "read_selection", "select"),
    "space": ("Constraints", "Space"),
    "table": ("Benchmark", "Metric", "ResultTable"),
    "twins": ("group_twins", "model_distances"),
}

__all__ = [
    "Benchmark",
    "Check",
    "Constraints",
    "CurvePoint",
    "EeveeError",
    "Front",
    "Metric",
    "MissingExtraError",
    "MlpScorer",
    "Nested",
    "Prediction",
    "Published",
    "Report",
    "ResultTable",
    "RidgeScorer",
    "Score",
    "Selection",
    "Space",
    "__version__",
    "check",
    "error_against_k",
    "group_twins",
    "importance",
    "kendall",
    "learning_curve",
    "load_gate",
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
    "read_csv_text",
    "read_result",
    "read_scores",
    "read_selection",
    "report",
    "score",
    "select",
    "subset_mean_agreement",
    "tiers",
]


def __getattr__(name: str) -> object:
    """Import a public name from its home when it is first used: torch is slow to import, `eevee --help` is not."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"eevee.{home}"), name)
    raise AttributeError(f"module 'eevee' has no attribute {name!r}")
