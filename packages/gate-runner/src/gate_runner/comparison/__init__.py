"""Which differences between runs hold: paired tests on the same test samples, corrected for their number."""

from __future__ import annotations

from gate_runner.comparison.contrasts import Comparison, Contrast, compare
from gate_runner.comparison.power import power
from gate_runner.comparison.trade import trade_between as trade_between

__all__ = ["Comparison", "Contrast", "compare", "power"]
