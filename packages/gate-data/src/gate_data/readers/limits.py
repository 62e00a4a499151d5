"""How large a stranger's file may be, once unpacked: named in the error, and changed by the environment."""

from __future__ import annotations

import os

from gate_data.errors import DataError

LIMITS = {"pixels": 89_478_485, "bytes": 2**30}
"""Of a picture (Pillow's own limit), and of a member of an archive, a JSON file, or a part of a table or array file."""


def most(what: str) -> int:
    """The limit in force.

    Example:
        >>> most("bytes")
        1073741824
    """
    given = os.environ.get(variable(what), "")
    if not given:
        return LIMITS[what]
    if not given.isdecimal() or int(given) < 1:
        raise DataError(f"{variable(what)} is {given!r}, expected a positive whole number")
    return int(given)


def within(size: int, what: str, name: str) -> None:
    """Refuse what is larger than its limit, before it is read.

    Example:
        >>> within(5, "bytes", "a.json")
    """
    limit = most(what)
    if size > limit:
        raise DataError(f"{name} has {size:,} {what}, more than {limit:,}; {variable(what)} sets another limit")


def variable(what: str) -> str:
    """The environment's variable of a limit.

    Example:
        >>> variable("pixels")
        'GATE_RUNNER_MAX_PIXELS'
    """
    return f"GATE_RUNNER_MAX_{what.upper()}"
