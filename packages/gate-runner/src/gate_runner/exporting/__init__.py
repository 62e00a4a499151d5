"""A run's results in the forms that other tools and people read."""

from __future__ import annotations

from gate_runner.exporting.forms import FORMS, export, folders_of

__all__ = ["FORMS", "export", "folders_of"]
