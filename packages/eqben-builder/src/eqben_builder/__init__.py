"""Minimal-change image/caption pairs: building, reading, writing, scoring and reviewing them."""

from eqben_builder.__about__ import __version__
from eqben_builder.formats import PairRow, read_any, read_pictures, write_as
from eqben_builder.records import PairRecord
from eqben_builder.scoring import (
    CHANCE,
    Residuals,
    ScoreTable,
    Share,
    ValseScores,
    WinogroundScores,
    blind_scores,
    caption_order_scores,
    dual_similarities,
    equivariance_distribution,
    equivariance_residuals,
    equivariance_scores,
    fusion_similarities,
    ground_boundary,
    grounding_accuracy,
    read_scores,
    score_table,
    valse_scores,
    winoground_scores,
)

__all__ = [
    "CHANCE",
    "PairRecord",
    "PairRow",
    "Residuals",
    "ScoreTable",
    "Share",
    "ValseScores",
    "WinogroundScores",
    "__version__",
    "blind_scores",
    "caption_order_scores",
    "dual_similarities",
    "equivariance_distribution",
    "equivariance_residuals",
    "equivariance_scores",
    "fusion_similarities",
    "ground_boundary",
    "grounding_accuracy",
    "read_any",
    "read_pictures",
    "read_scores",
    "score_table",
    "valse_scores",
    "winoground_scores",
    "write_as",
]
