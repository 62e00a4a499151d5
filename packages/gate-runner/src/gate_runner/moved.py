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

_OF_BENCHMARKS = (
    "data", "hub", "maps", "original_files", "originals", "packaged", "pictures", "request", "tables",
)  # fmt: skip
MOVED = {
    "gate_runner.readers": "gate_data.readers",
    "gate_runner.own_data": "gate_data.own",
    "gate_runner.data_check": "gate_data.checking",
    "gate_runner.ragged": "gate_data.ragged",
    "gate_runner.collecting": "gate_data.collecting",
    "gate_runner.imports": "gate_data.imports",
    "gate_runner.benchmarks.sheets": "gate_data.cards",
    "gate_runner.detection.objects": "gate_data.boxes.objects",
    "gate_runner.detection.files": "gate_data.boxes.files",
    **{f"gate_runner.benchmarks.{name}": f"gate_data.{name}" for name in _OF_BENCHMARKS},
    "gate_runner.benchmarks.omniglot": "gate_data.originals.few_shot",
    "gate_runner.benchmarks.shared": "gate_data.shared",
    "gate_runner.benchmarks.benchmark": "gate_runner.benchmark",
    "gate_runner.adaptation.onnx_export": "gate_runner.heads.onnx",
    "gate_runner.adaptation": "gate_runner.heads",
    "gate_runner.prediction": "gate_runner.forecasting",
    "gate_runner.memory": "gate_runner.machine",
    "gate_runner.runs.memory": "gate_runner.machine",
    "gate_runner.comparison.paired": "vision_adapters.paired",
    "gate_runner.comparison.seeds": "vision_adapters.paired",
    "gate_runner.detection.average_precision": "vision_adapters.detection.average_precision",
    "gate_runner.detection.detectors": "gate_runner.encoders.detectors",
    "gate_runner.detection.matching": "gate_runner.detection.scoring",
    "gate_runner.detection.prompts": "gate_runner.encoders.phrases",
    "gate_runner.icinw": "gate_runner.tasks.elevater",
    "gate_runner.reports.markup": "gate_runner.charts.markup",
    "gate_runner.reports.paper_table": "gate_runner.charts.table",
    "gate_runner.reports.suites": "gate_runner.tasks.suite_table",
    "gate_runner.reports.svg": "gate_runner.charts.svg",
    "gate_runner.tasks.drawing_more": "gate_runner.tasks.drawing",
    "gate_runner.tasks.episodes": "vision_adapters.episodes",
    "gate_runner.tasks.rates": "vision_adapters.training.rates",
    "gate_runner.tasks.scaling": "vision_adapters.training.scale",
    "gate_runner.tasks.trained": "gate_runner.tasks.after_training",
    "gate_runner.tasks.tuned": "gate_runner.tasks.backbone",
    "gate_runner.executors.here": "gate_runner.executors.executor",
    "gate_runner.executors.making": "gate_runner.executors.run",
    "gate_runner.runs.untrained": "gate_runner.runs.results",
    "gate_runner.runs.naming": "gate_runner.runs.request",
    "gate_runner.tasks.run": "gate_runner.tasks.registry",
    "gate_runner.tasks.classes": "gate_runner.tasks.predicted",
    "gate_runner.tasks.targets": "gate_runner.tasks.training",
    "gate_runner.tasks.measured": "gate_runner.tasks.training",
    "gate_runner.tasks.elevater.figures": "gate_runner.tasks.elevater.tables",
    "gate_runner.runs.circumstances": "gate_runner.machine",
    "gate_runner.energy.nvml": "gate_runner.energy.meter",
    "gate_runner.energy.rapl": "gate_runner.energy.meter",
    "gate_runner.encoders.micro": "gate_runner.encoders.micro_clip",
    "gate_runner.encoders.device": "gate_runner.encoders.loading",
    "gate_runner.runs.lock": "gate_runner.files",
    "gate_runner.tasks.probing": "gate_runner.tasks.classification",
    "gate_runner.encoders.precision": "gate_runner.encoders.probe",
    "gate_runner.encoders.outputs": "gate_runner.encoders.spec",
}
"""Old names, with all below them, until 0.4."""


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
