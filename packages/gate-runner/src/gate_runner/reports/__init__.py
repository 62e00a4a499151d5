"""What runs found, for people: one self-contained page, and tables for papers."""

from __future__ import annotations

from gate_runner.reports.contents import Cell, Contents, Row, gather
from gate_runner.reports.forms import report
from gate_runner.reports.page import build_page
from gate_runner.reports.tables import (
    as_csv,
    as_latex,
    as_markdown,
    classes_as_csv,
    confusions_as_csv,
    hardest_as_markdown,
)

__all__ = [
    "Cell",
    "Contents",
    "Row",
    "as_csv",
    "as_latex",
    "as_markdown",
    "build_page",
    "classes_as_csv",
    "confusions_as_csv",
    "gather",
    "hardest_as_markdown",
    "report",
]
