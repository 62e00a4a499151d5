"""All settings of a run: declared once, read from what a person writes, checked as they are made."""

from gate_runner.settings.record import Settings

__all__ = ["Settings"]
