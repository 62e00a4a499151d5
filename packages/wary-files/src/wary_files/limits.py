"""What a stranger's file may be: how large once unpacked, and no pipe; what a library raises over it is one line."""

from __future__ import annotations

import os
import stat as status
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wary_files.errors import DataError, UsageError

LIMITS = {"pixels": 89_478_485, "bytes": 2**30}
"""Of an image that is decoded at once (Pillow's own limit), and of a member of an archive, a JSON file, or a part of a
table or array file."""


def most(unit: str) -> int:
    """The limit in force."""
    value = os.environ.get(variable(unit), "")
    if not value:
        return LIMITS[unit]
    if not value.isdecimal() or int(value) < 1:
        raise DataError(f"{variable(unit)} is {value!r}, expected a positive whole number")
    return int(value)


def within(size: int, unit: str, name: str, times: int = 1) -> None:
    """Refuse what is larger than its limit, or so many times it, before it is read."""
    limit = times * most(unit)
    if size > limit:
        raise DataError(f"{name} has {size:,} {unit}, more than {limit:,}; {variable(unit)} sets another limit")


def refuse_special(path: Path) -> None:
    """Refuse a pipe, socket or device, which is waited for without end."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return  # opening it says what is wrong
    if not (status.S_ISREG(mode) or status.S_ISDIR(mode)):
        raise DataError(f"{path} is no file that holds data, but a pipe, socket or device")


@contextmanager
def reading(name: str, form: str = "") -> Iterator[None]:
    """Whatever is raised inside, as one line: libraries raise errors of every kind over broken files."""
    try:
        yield
    except UsageError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{name} is not there") from error
    except Exception as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or error
        raise DataError(f"{name} cannot be read{form and f' as {form}'}: {reason}") from error


def variable(unit: str) -> str:
    """The environment's variable of a limit."""
    return f"WARY_FILES_MAX_{unit.upper()}"
