"""Errors that a user can mend: one line, the value that is wrong, what was expected."""

from __future__ import annotations

import difflib
import errno
import functools
import inspect
import operator
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_LISTED = 100
"""Names that a message lists, at most: timm has more than a thousand models."""


class UsageError(ValueError):
    """Something that was asked for cannot be done; a command line prints the message and exits with 2."""


class MissingExtraError(UsageError):
    """A format needs a library that is not installed; the message names the extra that brings it."""


class StorageError(UsageError):
    """A folder cannot be written; nothing that is finished is lost."""

    @classmethod
    def about(cls, path: Path, error: OSError) -> StorageError:
        """An error that names the file and what the system says of it."""
        reason = error.strerror or type(error).__name__
        return cls(f"cannot write {path}: {reason}; what is finished is kept, the same command continues")


class DataError(UsageError):
    """A data set's own files are missing, unreadable or not in their format; its message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))


def unknown(kind: str, name: str, existing: Iterable[str]) -> UsageError:
    """An error for a name that nothing has, with the nearest names that exist."""
    names = list(existing)
    by_case = {other.casefold(): other for other in names}
    near = [by_case[other] for other in difflib.get_close_matches(name.casefold(), by_case, n=3, cutoff=0.5)]
    if not near and len(names) > _LISTED:
        offer, near = f"there are {len(names):,}, e.g.", difflib.get_close_matches(name, names, n=5, cutoff=0.0)
    else:
        offer = "nearest:" if near else "there are:"
    return UsageError(f"unknown {kind} {name!r}; {offer} {', '.join(near or sorted(names))}")


def reason_of(error: BaseException, most: int = 300) -> str:
    r"""Return another library's error in one line: its type and first line, with the next where that ends in a colon.

    Args:
        error: of any type, also without a message.
        most: letters of the message.

    Example:
        >>> reason_of(RuntimeError("Error(s) in loading:\n\tMissing key(s): a\n")), reason_of(StopIteration())
        ('RuntimeError: Error(s) in loading: Missing key(s): a', 'StopIteration')
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])
    message = message if len(message) <= most else f"{message[:most]} …"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def line_of(error: BaseException) -> str:
    r"""Return the one line with which a command ends: of the system's errors, the file, the reason, and what to do.

    Example:
        >>> line_of(PermissionError(13, "Permission denied", "runs/a.json"))
        'runs/a.json: Permission denied; ask its owner for the right, or use a copy or folder of your own'
        >>> line_of(ValueError("two\nlines")), line_of(StopIteration())
        ('two lines', 'StopIteration')
    """
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        advice = "; ask its owner for the right, or use a copy or folder of your own" if denied else ""
        second = "" if error.filename2 is None else f" -> {error.filename2}"
        return " ".join(f"{error.filename}{second}: {error.strerror}{advice}".split())
    if isinstance(error, UnicodeEncodeError):
        letters = error.object[error.start : error.end]
        return f"{letters!a:.60} cannot be written as {error.encoding}: name it in a UTF-8 locale, as by LC_ALL=C.UTF-8"
    return " ".join(str(error).split()) or type(error).__name__


def whole_numbers(*names: str, error: type[Exception] = UsageError) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Refuse other arguments of these names than whole numbers and None, before a function begins.

    Args:
        names: of parameters.
        error: what is raised; its message shows the name and the value.

    Example:
        >>> @whole_numbers("count")
        ... def first(values, count=2):
        ...     return values[:count]
        >>> first([1, 2, 3], 1.5)
        Traceback (most recent call last):
        wary_files.errors.UsageError: count is 1.5; expected a whole number
    """

    def wrap(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError:  # the call itself says it
                return function(*args, **kwargs)
            for name in names:
                if name in given and given[name] is not None and not _is_whole(given[name]):
                    raise error(f"{name} is {given[name]!r:.60}; expected a whole number")
            return function(*args, **kwargs)

        return checked

    return wrap


def _is_whole(value: object) -> bool:
    if isinstance(value, bool):
        return False
    try:
        operator.index(value)  # type: ignore[arg-type]  # that is what is asked
    except TypeError:
        return False
    return True
