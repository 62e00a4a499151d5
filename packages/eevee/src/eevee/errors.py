"""The one exception that bad input raises."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_FEW = 12
"""So many known names are all printed."""


def nearest(name: str, known: Sequence[str]) -> str:
    """Return, for an error, the known names that are nearest to an unknown one, or all of a few."""
    if len(known) <= _FEW:
        return f"the table has: {', '.join(known)}"
    folded = {key.casefold(): key for key in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)
    close += [key for key in folded if name.casefold() in key and key not in close][: 3 - len(close)]
    if close:
        return f"the nearest of the table's {len(known)}: {', '.join(folded[key] for key in close)}"
    return f"none of the table's {len(known)} is like it"


class EeveeError(ValueError):
    """Input that cannot be used; the message prints the offending value and what was expected.

    Example:
        >>> from eevee import load_table
        >>> try:
        ...     load_table("gate").positions(["imagenet"])
        ... except EeveeError as error:
        ...     print(str(error)[:28])
        unknown benchmark 'imagenet'
    """


class MissingExtraError(EeveeError, ImportError):
    """An optional dependency is absent; the message names the extra that installs it."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"{module} is not installed; install it with: pip install 'eevee-search[{extra}]'")
