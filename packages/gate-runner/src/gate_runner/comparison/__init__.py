"""Which differences between runs hold: paired tests on the same test samples, corrected for their number."""

from __future__ import annotations

from gate_runner.comparison.contrasts import Comparison, Contrast, compare_runs
from gate_runner.comparison.paired import PairedTest, holm, paired_test

__all__ = ["Comparison", "Contrast", "PairedTest", "compare_runs", "holm", "paired_test"]
