"""Score a vision encoder on GATE's tasks: `run`; before it, `plan`; after it, `compare`, `report`, `forecast`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gate_runner.__about__ import __version__
from gate_runner.moved import install

if TYPE_CHECKING:
    from gate_runner.api import Run, adapt, compare, export, forecast, plan, power, report, run
    from gate_runner.benchmarks import BENCHMARKS, PACKS, Benchmark
    from gate_runner.choosing import choose
    from gate_runner.comparison import Comparison, Contrast
    from gate_runner.encoders import load_encoder
    from gate_runner.encoders.encoder import Encoder
    from gate_runner.encoders.tuned import load_tuned
    from gate_runner.forecasting import Forecast
    from gate_runner.heads import Head, embed, load_head
    from gate_runner.monitoring import Monitor
    from gate_runner.planning import Plan
    from gate_runner.runs import Result
    from gate_runner.settings import Settings

install()
_HOMES = {
    "BENCHMARKS": "gate_runner.benchmarks",
    "PACKS": "gate_runner.benchmarks",
    "Benchmark": "gate_runner.benchmarks",
    "Comparison": "gate_runner.comparison",
    "Contrast": "gate_runner.comparison",
    "Encoder": "gate_runner.encoders.encoder",
    "Head": "gate_runner.heads",
    "Forecast": "gate_runner.forecasting",
    "Monitor": "gate_runner.monitoring",
    "Plan": "gate_runner.planning",
    "Result": "gate_runner.runs",
    "Run": "gate_runner.api",
    "Settings": "gate_runner.settings",
    "adapt": "gate_runner.api",
    "choose": "gate_runner.choosing",
    "compare": "gate_runner.api",
    "embed": "gate_runner.heads",
    "export": "gate_runner.api",
    "load_encoder": "gate_runner.encoders",
    "load_head": "gate_runner.heads",
    "load_tuned": "gate_runner.encoders.tuned",
    "plan": "gate_runner.api",
    "power": "gate_runner.api",
    "forecast": "gate_runner.api",
    "report": "gate_runner.api",
    "run": "gate_runner.api",
}

__all__ = [
    "BENCHMARKS",
    "PACKS",
    "Benchmark",
    "Comparison",
    "Contrast",
    "Encoder",
    "Forecast",
    "Head",
    "Monitor",
    "Plan",
    "Result",
    "Run",
    "Settings",
    "__version__",
    "adapt",
    "choose",
    "compare",
    "embed",
    "export",
    "forecast",
    "load_encoder",
    "load_head",
    "load_tuned",
    "plan",
    "power",
    "report",
    "run",
]


_RENAMED = {"predict": "forecast", "FullPrediction": "Forecast"}
"""Names until 0.2, which warn."""
_METHODS = {"ZeroShot": "zeroshot", "Probe": "probe", "Finetune": "finetune"}
"""Records until 0.2, whose fields are options of `adapt`."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the command line must not wait for torch."""
    if name in _RENAMED:
        import warnings

        warnings.warn(f"gate_runner.{name} is called {_RENAMED[name]} now", DeprecationWarning, stacklevel=2)
        name = _RENAMED[name]
    if name in _METHODS:
        raise AttributeError(f"gate_runner.{name}(…) is gate_runner.adapt(images, {_METHODS[name]!r}, …) now")
    if name in _HOMES:
        import importlib

        globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
        return globals()[name]
    raise AttributeError(f"module 'gate_runner' has no attribute {name!r}")
