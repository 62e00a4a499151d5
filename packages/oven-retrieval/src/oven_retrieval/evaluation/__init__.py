"""Official and honest numbers of OVEN."""

from __future__ import annotations

from oven_retrieval.evaluation.curves import (
    POPULARITY_EDGES,
    Bin,
    SizePoint,
    accuracy_by_popularity,
    accuracy_by_size,
    wilson,
)
from oven_retrieval.evaluation.errors import KINDS, KindShare, error_kind, error_kinds, is_kind_of, kind_shares
from oven_retrieval.evaluation.figures import popularity_figure, size_figure
from oven_retrieval.evaluation.files import Prediction, Reference, read_predictions, read_references
from oven_retrieval.evaluation.honest import Estimate, Outcomes, Scores, SplitScores, outcomes, scores, split_scores
from oven_retrieval.evaluation.nearness import near_by_vectors
from oven_retrieval.evaluation.official import (
    OfficialScores,
    OfficialSplit,
    harmonic_mean,
    official_scores,
    official_split,
)
from oven_retrieval.evaluation.page import PageSource, read_sizes, results_page, write_page
from oven_retrieval.evaluation.report import evaluate_files, evaluate_splits, read_splits, report_lines

__all__ = [
    "KINDS",
    "POPULARITY_EDGES",
    "Bin",
    "Estimate",
    "KindShare",
    "OfficialScores",
    "OfficialSplit",
    "Outcomes",
    "PageSource",
    "Prediction",
    "Reference",
    "Scores",
    "SizePoint",
    "SplitScores",
    "accuracy_by_popularity",
    "accuracy_by_size",
    "error_kind",
    "error_kinds",
    "evaluate_files",
    "evaluate_splits",
    "harmonic_mean",
    "is_kind_of",
    "kind_shares",
    "near_by_vectors",
    "official_scores",
    "official_split",
    "outcomes",
    "popularity_figure",
    "read_predictions",
    "read_references",
    "read_sizes",
    "read_splits",
    "report_lines",
    "results_page",
    "scores",
    "size_figure",
    "split_scores",
    "wilson",
    "write_page",
]
