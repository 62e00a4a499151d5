"""Metrics with bootstrap intervals, and paired differences."""

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
    "Difference",
    "Metric",
    "RunningScores",
    "Score",
    "evaluate",
    "metric_named",
    "paired_difference",
    "score_outcomes",
    "wilson",
]
