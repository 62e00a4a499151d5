"""Metrics with intervals, and what they keep per sample."""

from paired_scores.metrics.classes import by_class, confusion
from paired_scores.metrics.definitions import METRICS
from paired_scores.metrics.reliability import CalibrationError, calibration_error, reliability
from paired_scores.metrics.score import (
    RunningScores,
    Score,
    evaluate,
    metric_named,
    paired_difference,
    score_outcomes,
    wilson,
)

__all__ = [
    "METRICS",
    "CalibrationError",
    "RunningScores",
    "Score",
    "by_class",
    "calibration_error",
    "confusion",
    "evaluate",
    "metric_named",
    "paired_difference",
    "reliability",
    "score_outcomes",
    "wilson",
]
