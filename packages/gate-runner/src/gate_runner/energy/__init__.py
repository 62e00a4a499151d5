"""Joules by phase where the hardware counts them; where it does not, why not."""

from __future__ import annotations

from gate_runner.energy.meter import EnergyMeter

__all__ = ["EnergyMeter"]
