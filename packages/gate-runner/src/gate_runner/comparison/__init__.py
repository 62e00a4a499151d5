"""Which differences between runs hold: paired tests on the same test samples, corrected for their number."""

from __future__ import annotations

from gate_runner.comparison.contrasts import Comparison, Contrast, compare
from gate_runner.comparison.power import PowerReport
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
    "compare",
    "holm",
    "paired_test",
    "samples_needed",
    "trade_between",
]
