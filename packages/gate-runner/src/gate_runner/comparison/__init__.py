"""Which differences between runs hold: paired tests on the same test samples, corrected for their number."""

from __future__ import annotations

from gate_runner.comparison.contrast import Comparison, Contrast
from gate_runner.comparison.contrasts import compare_runs
from gate_runner.comparison.power import PowerReport, power_of
from gate_runner.comparison.trade import Side, Trade, trade_between
from vision_adapters.paired import PairedTest, holm, paired_test
from vision_adapters.power import Power, samples_needed

__all__ = [
    "Comparison",
    "Contrast",
    "PairedTest",
    "Power",
    "PowerReport",
    "Side",
    "Trade",
    "compare_runs",
    "holm",
    "paired_test",
    "power_of",
    "samples_needed",
    "trade_between",
]
