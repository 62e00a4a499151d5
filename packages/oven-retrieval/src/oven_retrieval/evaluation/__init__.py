"""Official and honest numbers of OVEN."""

from __future__ import annotations

from .curves import POPULARITY_EDGES, Bin, SizePoint, accuracy_by_popularity, accuracy_by_size, wilson
from .files import Prediction, Reference, read_predictions, read_references
from .honest import Estimate, Outcomes, Scores, SplitScores, outcomes, scores, split_scores
from .official import OfficialScores, OfficialSplit, harmonic_mean, official_scores, official_split
from .report import evaluate_files, report_lines

__all__ = [
    "POPULARITY_EDGES",
    "Bin",
    "Estimate",
    "OfficialScores",
    "OfficialSplit",
    "Outcomes",
    "Prediction",
    "Reference",
    "Scores",
    "SizePoint",
    "SplitScores",
    "accuracy_by_popularity",
    "accuracy_by_size",
    "evaluate_files",
    "harmonic_mean",
    "official_scores",
    "official_split",
    "outcomes",
    "read_predictions",
    "read_references",
    "report_lines",
    "scores",
    "split_scores",
    "wilson",
]
