"""Folders listed once while a data set is looked at: what guesses, reads and checks it asks for the same ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

Made = TypeVar("Made")
_HELD: ContextVar[dict[Hashable, Any] | None] = ContextVar("gate_data_held", default=None)


@contextmanager
def scanned_once() -> Iterator[None]:
    """Hold every listing of a folder until the block ends, for this thread; the outermost block counts."""
    if _HELD.get() is not None:
        yield
        return
    token = _HELD.set({})
    try:
        yield
    finally:
        _HELD.reset(token)


def once(key: Hashable, make: Callable[[], Made]) -> Made:
    """What a function makes, or what it made under this key in the same block of `scanned_once`."""
    held = _HELD.get()
    if held is None:
        return make()
    if key not in held:
        held[key] = make()
    made: Made = held[key]
    return made


def scanned(folder: str | Path) -> list[os.DirEntry[str]]:
    """All that is in a folder, without a path or a question to the disk for each: there may be a million files."""
    return once(("entries", str(folder)), lambda: _scanned(folder))


def _scanned(folder: str | Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(entries)


def inner_folders(folder: str | Path) -> list[os.DirEntry[str]]:
    """The folders in a folder."""
    return [] if is_all_files(folder) else once(("folders", str(folder)), lambda: _folders(folder))


def _folders(folder: str | Path) -> list[os.DirEntry[str]]:
    return list(filter(os.DirEntry.is_dir, scanned(folder)))


def is_all_files(folder: str | Path) -> bool:
    """Whether all in a folder are files: no folder, no link that leads nowhere."""
    return once(("files", str(folder)), lambda: all(map(os.DirEntry.is_file, scanned(folder))))


def endings_in(folder: str | Path) -> frozenset[str]:
    """All endings of names in a folder, from the last dot on, in lower case; empty for a name without one."""

    def listed() -> frozenset[str]:
        written = {entry.name.rpartition(".")[1:] for entry in scanned(folder)}
        return frozenset("".join(ending).lower() if ending[0] else "" for ending in written)

    return once(("endings", str(folder)), listed)
