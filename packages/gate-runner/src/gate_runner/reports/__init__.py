"""What runs found, for people: one self-contained page, and tables for papers."""

from __future__ import annotations

from gate_runner.reports.forms import report

__all__ = ["report"]
