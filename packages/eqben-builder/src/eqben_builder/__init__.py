"""Minimal-change image/caption pairs, and the scores that read them."""

from eqben_builder.__about__ import __version__
from eqben_builder.files import PairRow, read_pairs, read_pictures, write_pairs
from eqben_builder.scores import (
    CHANCE,
    Residuals,
    Share,
    WinogroundScores,
    equivariance_residuals,
    winoground_scores,
)

__all__ = [
    "CHANCE",
    "PairRow",
    "Residuals",
    "Share",
    "WinogroundScores",
    "__version__",
    "equivariance_residuals",
    "read_pairs",
    "read_pictures",
    "winoground_scores",
    "write_pairs",
]
