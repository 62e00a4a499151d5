"""A run's results in the forms that other tools and people read."""

from __future__ import annotations

from gate_runner.exporting.forms import FORMS, export
from gate_runner.exporting.model import Exported, model_name

__all__ = ["FORMS", "Exported", "export", "model_name"]
