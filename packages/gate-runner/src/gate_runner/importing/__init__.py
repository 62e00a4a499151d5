"""Scores that other tools computed, read from their files and written as run folders without outcomes."""

from __future__ import annotations

from gate_runner.importing.folders import Imported, import_scores

__all__ = ["Imported", "import_scores"]
