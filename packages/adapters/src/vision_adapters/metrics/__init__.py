"""Metrics with bootstrap intervals, and paired differences."""

from vision_adapters.metrics.classes import ClassScore, by_class, confusion
from vision_adapters.metrics.definitions import METRICS, Metric
from vision_adapters.metrics.score import (
    Difference,
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
    "ClassScore",
    "Difference",
    "Metric",
    "RunningScores",
    "Score",
    "by_class",
    "confusion",
    "evaluate",
    "metric_named",
    "paired_difference",
    "score_outcomes",
    "wilson",
]
