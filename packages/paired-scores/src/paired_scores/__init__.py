"""Scores with intervals, and tests whether two models differ on the same samples."""

from paired_scores.__about__ import __version__
from paired_scores.best import worse_than_another
from paired_scores.metrics import (
    METRICS,
    RunningScores,
    Score,
    by_class,
    confusion,
    evaluate,
    metric_named,
    paired_difference,
    score_outcomes,
    wilson,
)
from paired_scores.paired import McNemar, PairedTest, benjamini_hochberg, holm, mcnemar, paired_test
from paired_scores.power import Power, power_of_outcomes, samples_needed

__all__ = [
    "METRICS",
    "McNemar",
    "PairedTest",
    "Power",
    "RunningScores",
    "Score",
    "__version__",
    "benjamini_hochberg",
    "by_class",
    "confusion",
    "evaluate",
    "holm",
    "mcnemar",
    "metric_named",
    "paired_difference",
    "paired_test",
    "power_of_outcomes",
    "samples_needed",
    "score_outcomes",
    "wilson",
    "worse_than_another",
]
