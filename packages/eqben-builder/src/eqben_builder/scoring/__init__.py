"""Scores of minimal pairs: whatever gives a similarity, a probability or an answer in words can be scored."""

from eqben_builder.scoring.blind import BlindScores, CaptionModel, TextScorer, blind_scores
from eqben_builder.scoring.caption_order import (
    Answerer,
    CaptionOrder,
    caption_order_scores,
    parse_order,
    side_by_side,
)
from eqben_builder.scoring.equivariance import (
    Distribution,
    Residuals,
    equivariance_distribution,
    equivariance_residuals,
    equivariance_scores,
)
from eqben_builder.scoring.grounding import Grounding, ground_boundary, grounding_accuracy
from eqben_builder.scoring.intervals import Share
from eqben_builder.scoring.score_files import read_scores
from eqben_builder.scoring.similarity import DualEncoder, dual_similarities, fusion_similarities
from eqben_builder.scoring.table import CHANCE, ScoreTable, TableRow, WinogroundScores, score_table, winoground_scores
from eqben_builder.scoring.valse import ValseScores, best_threshold, valse_scores

__all__ = [
    "CHANCE",
    "Answerer",
    "BlindScores",
    "CaptionModel",
    "CaptionOrder",
    "Distribution",
    "DualEncoder",
    "Grounding",
    "Residuals",
    "ScoreTable",
    "Share",
    "TableRow",
    "TextScorer",
    "ValseScores",
    "WinogroundScores",
    "best_threshold",
    "blind_scores",
    "caption_order_scores",
    "dual_similarities",
    "equivariance_distribution",
    "equivariance_residuals",
    "equivariance_scores",
    "fusion_similarities",
    "ground_boundary",
    "grounding_accuracy",
    "parse_order",
    "read_scores",
    "score_table",
    "side_by_side",
    "valse_scores",
    "winoground_scores",
]
