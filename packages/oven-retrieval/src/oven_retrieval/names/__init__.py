"""Names to entities.

Names are imported when they are first used; `__init__.pyi` lists them.
"""

from typing import Any

import lazy_loader

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return _public(name)
    from oven_retrieval.ranking import former_names

    return former_names(__name__, "Hits", "Links")(name)
