"""A run's results in the forms that other tools and people read."""

from __future__ import annotations

from gate_runner.exporting.forms import FORMS, export
from gate_runner.exporting.model import Exported, ModelName, model_name

__all__ = ["FORMS", "Exported", "ModelName", "export", "model_name"]
