"""Score a vision encoder on GATE's tasks: `run`; before it, `plan`; after it, `compare`, `report`, `forecast`.

Names are imported when they are first used, as the command line must not wait for torch; `__init__.pyi` lists them.
"""

from __future__ import annotations

from typing import Any

import lazy_loader

from gate_runner.moved import install

install()
_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_RENAMED = {"predict": "forecast", "FullPrediction": "Forecast"}
"""Names until 0.2, which warn."""
_METHODS = {"ZeroShot": "zeroshot", "Probe": "probe", "Finetune": "finetune"}
"""Records until 0.2, whose fields are options of `adapt`."""


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        import warnings

        warnings.warn(f"gate_runner.{name} is called {_RENAMED[name]} now", DeprecationWarning, stacklevel=2)
        name = _RENAMED[name]
    if name in _METHODS:
        raise AttributeError(f"gate_runner.{name}(…) is gate_runner.adapt(images, {_METHODS[name]!r}, …) now")
    if name not in __all__:
        raise AttributeError(f"module 'gate_runner' has no attribute {name!r}")
    return _public(name)
