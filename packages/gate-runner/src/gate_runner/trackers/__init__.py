"""Experiment trackers as observers of a run: learning curves, scores with intervals, configuration."""

from __future__ import annotations

from gate_runner.trackers.making import TRACKERS, make_trackers

__all__ = ["TRACKERS", "make_trackers"]
