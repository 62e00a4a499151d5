"""Metrics with intervals, and what they keep per sample."""

from paired_scores.metrics.classes import ClassScore, by_class, confusion
from paired_scores.metrics.definitions import METRICS, Metric
from paired_scores.metrics.reliability import Bin, reliability
from paired_scores.metrics.score import (
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
    "Bin",
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
    "reliability",
    "score_outcomes",
    "wilson",
]
