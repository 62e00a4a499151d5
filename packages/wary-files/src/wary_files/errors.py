"""Errors that a user can mend: one line, the value that is wrong, what was expected."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

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
