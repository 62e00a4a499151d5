"""Models that retrieve entities for an image and a question; what is trained needs the extra `torch`.

Names are imported when they are first used; `__init__.pyi` lists them.
"""

from typing import Any

import lazy_loader

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return _public(name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "jaxtyping", "safetensors"):
            raise
        raise ImportError(f"{name} needs {error.name}: pip install 'oven-retrieval[torch]'") from error
