"""The data sets of GATE, ELEVATER and ODinW, and your own, from their files to three splits."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gate_data.__about__ import __version__

if TYPE_CHECKING:
    from gate_data.cards import ICINW, SHEETS, Hub, IcinwSheet, Sheet
    from gate_data.checking import Found, check_data
    from gate_data.data import Data, Split
    from gate_data.loading import SplitDataset, Splits, data_sets, load
    from gate_data.own import OwnBenchmark, guess, read_benchmark

_HOMES = {
    "ICINW": "cards",
    "SHEETS": "cards",
    "Hub": "cards",
    "IcinwSheet": "cards",
    "Sheet": "cards",
    "Found": "checking",
    "check_data": "checking",
    "Data": "data",
    "Split": "data",
    "SplitDataset": "loading",
    "Splits": "loading",
    "data_sets": "loading",
    "load": "loading",
    "OwnBenchmark": "own",
    "guess": "own",
    "read_benchmark": "own",
}
"""Modules of public names, imported when they are first used: cards are read without torch."""

__all__ = [
    "ICINW",
    "SHEETS",
    "Data",
    "Found",
    "Hub",
    "IcinwSheet",
    "OwnBenchmark",
    "Sheet",
    "Split",
    "SplitDataset",
    "Splits",
    "__version__",
    "check_data",
    "data_sets",
    "guess",
    "load",
    "read_benchmark",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _HOMES:
        return getattr(import_module(f"gate_data.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'gate_data' has no attribute {name!r}")
