"""Names of the last release that go on working for one more, with a warning that says the new one."""

from __future__ import annotations

import warnings
from typing import Any


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
        message = f"{old} is called {new} now; the old name goes with the next release"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(self, new)

    return property(read)
