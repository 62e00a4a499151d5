"""Compositional suites as benchmarks: their questions as samples, read from original files or made on the spot."""

from __future__ import annotations

from gate_runner.suites.pictures import QuestionPictures
from gate_runner.suites.questions import Questions

__all__ = ["QuestionPictures", "Questions"]
