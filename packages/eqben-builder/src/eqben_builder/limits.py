"""How large a stranger's file may be, once unpacked: named in the error, and changed by the environment."""

from __future__ import annotations

import os

#: Name -> most of it. `EQBEN_MAX_PIXELS` and so on set others.
LIMITS: dict[str, int] = {
    "pixels": 89_478_485,  # of a picture; Pillow's own
    "member_bytes": 1 << 30,  # of one member of an archive, or one array
    "json_bytes": 1 << 30,  # of a JSON file
}


def most(name: str) -> int:
    """The limit in force.

    Args:
        name: One of `LIMITS`.

    Returns:
        The environment's `EQBEN_MAX_NAME`, or the limit of `LIMITS`.

    Raises:
        ValueError: The environment's value is no positive whole number.

    Example:
        >>> most("pixels")
        89478485
    """
    variable = variable_of(name)
    given = os.environ.get(variable, "")
    if not given:
        return LIMITS[name]
    if not given.isdecimal() or int(given) < 1:
        raise ValueError(f"{variable} is {given!r}, expected a positive whole number")
    return int(given)


def within(size: int, name: str, what: str) -> None:
    """Refuse what is larger than its limit."""
    limit = most(name)
    if size > limit:
        unit = name.replace("_", " ").split()[-1]
        raise ValueError(f"{what} has {size:,} {unit}, more than {limit:,}; {variable_of(name)} sets another limit")


def variable_of(name: str) -> str:
    """The environment's variable of a limit."""
    return f"EQBEN_MAX_{name.upper()}"
