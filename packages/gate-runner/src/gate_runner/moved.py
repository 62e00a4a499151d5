"""Modules that lie elsewhere now: plug-ins of the last release import them by their old names, with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "gate_runner.benchmarks.benchmark": "gate_runner.benchmark",
    "gate_runner.benchmarks.data": "gate_data.data",
    "gate_runner.benchmarks.omniglot": "gate_data.originals.few_shot",
    "gate_runner.benchmarks.originals": "gate_data.originals",
    "gate_runner.benchmarks.pictures": "gate_data.pictures",
    "gate_runner.comparison.paired": "vision_adapters.paired",
    "gate_runner.comparison.seeds": "vision_adapters.paired",
}
"""Names of 0.1, with all below them, until 0.4."""


class _Alias(Loader):
    def __init__(self, new: str) -> None:
        self.new = new

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module under its new name."""
        module = import_module(self.new)
        self.own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It was executed under its new name: only what the import changed of it is put back."""
        module.__spec__ = self.own


class Finder(MetaPathFinder):
    """Finds what moved; asked last."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """The module's place, or None."""
        for old, new in MOVED.items():
            if fullname == old or fullname.startswith(f"{old}."):
                name = new + fullname[len(old) :]
                warnings.warn(f"{fullname} is {name} now, and goes in 0.4", DeprecationWarning, stacklevel=2)
                return ModuleSpec(fullname, _Alias(name))
        return None


def install() -> None:
    """Ask for moved modules, once."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder())
