"""Names of the last release that go on working for one more, with a warning that says the new one."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def renamed_attribute(old: str, new: str) -> property:
    """A read-only attribute that has another name now.

    Example:
        >>> class Box:
        ...     width = 3
        ...     breadth = renamed_attribute("Box.breadth", "width")
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     print(Box().breadth, caught[0].message)
        3 Box.breadth is called width now; the old name goes with the next release
    """

    def read(self: Any) -> Any:
        _warn(old, new)
        return getattr(self, new)

    return property(read)


def renamed_names(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__` for names that lie elsewhere now.

    Args:
        module: its name.
        names: old name -> "module.new_name".
    """

    def read(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name}", names[name])
        place, _, new = names[name].rpartition(".")
        return getattr(import_module(place), new)

    return read


def _warn(old: str, new: str) -> None:
    message = f"{old} is called {new} now; the old name goes with the next release"
    warnings.warn(message, DeprecationWarning, stacklevel=3)
