"""Metrics with intervals, and what they keep per sample."""

from paired_scores.metrics.classes import by_class, confusion
from paired_scores.metrics.definitions import METRICS
from paired_scores.metrics.reliability import reliability
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
    "RunningScores",
    "Score",
    "by_class",
    "confusion",
    "evaluate",
    "metric_named",
    "paired_difference",
    "reliability",
    "score_outcomes",
    "wilson",
]
