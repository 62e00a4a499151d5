"""Scores of an encoder while somebody else's loop trains it."""

from __future__ import annotations

from gate_runner.monitoring.monitor import Monitor

__all__ = ["Monitor"]
