"""The cache folder, and whether others could have written what lies in it: only then what it holds is believed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gate_data.errors import StorageError
from gate_data.readers.folders import cache_home

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def own_cache(*names: str) -> Path:
    """Return a folder of the cache, made where it is missing, which nobody but this user writes.

    From the cache's own folder down, each folder is one (no link but a link of this user's to the cache itself),
    belongs to this user and is writable by nobody else; no folder above it is one in which everybody may exchange
    others' folders. Where `GATE_RUNNER_SHARED_CACHE` names the cache, folders of all users are taken, and no links.

    Raises:
        StorageError: in one line, the folder, its owner or mode, and how to allow it.
        RuntimeError: there is no home.
    """
    home = cache_home()
    return checked(home.joinpath(*names), home)


def checked(folder: Path, home: Path) -> Path:
    """Return a folder below another one, made where it is missing, see `own_cache`."""
    refuse_others(folder, home, make=True)
    return folder


def refuse_others(folder: Path, home: Path, *, make: bool = False) -> None:
    """Refuse a folder that others could have filled, see `own_cache`; one that is not there is taken, or made."""
    shared = bool(os.environ.get("GATE_RUNNER_SHARED_CACHE"))
    above = None if shared else _exchangeable(home)
    if above is not None:
        raise _refused(*above)
    parts = folder.relative_to(home).parts
    for place in (home, *(home.joinpath(*parts[: count + 1]) for count in range(len(parts)))):
        try:
            if not os.path.lexists(place):
                if not make:
                    return
                if place == home:
                    place.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileExistsError):  # another process made it
                    place.mkdir(mode=0o777 if shared else 0o700)
            state = place.lstat()
            if place == home and stat.S_ISLNK(state.st_mode) and (shared or state.st_uid == _user()):
                state = place.stat()
        except OSError as error:
            raise StorageError.about(place, error) from error
        reason = _why(state, shared=shared)
        if reason is not None:
            raise _refused(place, reason)


def own_file(path: Path) -> bool:
    """Whether a path is a file itself: no link, no pipe."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _user() -> int | None:
    return os.geteuid() if hasattr(os, "geteuid") else None


def _why(state: os.stat_result, *, shared: bool) -> str | None:
    """Why what a folder holds is not believed; None where it is."""
    user = _user()
    if stat.S_ISLNK(state.st_mode):
        return "is a link"
    if not stat.S_ISDIR(state.st_mode):
        return "is no folder"
    if shared or user is None:
        return None
    if state.st_uid != user:
        return f"belongs to user {state.st_uid}, this process is user {user}"
    if state.st_mode & _OTHERS_WRITE:
        return f"can be written by others (mode {stat.S_IMODE(state.st_mode):o}; chmod go-w closes it)"
    return None


def _exchangeable(home: Path) -> tuple[Path, str] | None:
    """The first folder above in which everybody may rename what belongs to others, and why; None where none is."""
    if _user() is None:
        return None
    for place in _above(home):
        try:
            mode = place.stat().st_mode
        except OSError:  # it is made next, or cannot be
            continue
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return place, f"can be written by everybody (mode {stat.S_IMODE(mode):o})"
    return None


def _above(home: Path) -> Iterator[Path]:
    yield from home.parents
    with suppress(OSError, RuntimeError):
        yield from home.resolve().parents


def _refused(place: Path, reason: str) -> StorageError:
    return StorageError(
        f"the cache is not used: {place} {reason}; set GATE_RUNNER_CACHE to a folder of your own, or "
        "GATE_RUNNER_SHARED_CACHE to one whose other writers you trust"
    )
