"""ELEVATER's grid of image classification: data sets by shots, what is tuned, how the head starts, and knowledge.

Names are imported when they are first used: what a grid is called can be checked without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gate_runner.icinw.cells import Axes, Cell
    from gate_runner.icinw.grid import run_grid
    from gate_runner.icinw.page import grid_report
    from gate_runner.icinw.record import Record, read_cells
    from gate_runner.icinw.request import GridRequest, make_grid_request
    from gate_runner.icinw.submission import read_submission, score_entry, write_submission

_LAZY = {
    "Axes": "cells",
    "Cell": "cells",
    "GridRequest": "request",
    "Record": "record",
    "grid_report": "page",
    "make_grid_request": "request",
    "read_cells": "record",
    "read_submission": "submission",
    "run_grid": "grid",
    "score_entry": "submission",
    "write_submission": "submission",
}

__all__ = [
    "Axes",
    "Cell",
    "GridRequest",
    "Record",
    "grid_report",
    "make_grid_request",
    "read_cells",
    "read_submission",
    "run_grid",
    "score_entry",
    "write_submission",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _LAZY:
        return getattr(import_module(f"gate_runner.icinw.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'gate_runner.icinw' has no attribute {name!r}")
