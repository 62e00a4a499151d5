"""Score a vision encoder on GATE's tasks: `run`; before it, `plan`; after it, `compare`, `report`, `forecast`.

Names are imported when they are first used, as the command line must not wait for torch; `__init__.pyi` lists them.
"""

from __future__ import annotations

from typing import Any

import lazy_loader

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'gate_runner' has no attribute {name!r}")
    return _public(name)
