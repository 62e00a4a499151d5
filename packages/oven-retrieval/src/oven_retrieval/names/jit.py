"""Compile loops by numba and keep them: beside the package, in the user's folder, in a temporary one, or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba


def _obey_no_file() -> None:
    """Take numba's settings from the environment alone.

    numba reads ``.numba_config.yaml`` in the working folder, at import and at each compilation; its ``cache_dir`` names
    a folder of pickles. In a stranger's folder that runs code.
    """
    config: Any = numba.core.config
    config._config_fname = str(Path(os.devnull) / "none")  # numba has no public way
    config.reload_config()


_obey_no_file()


def jit(function: Callable[..., Any]) -> Any:
    """Compile a function without the interpreter's lock, and keep the code wherever a folder can be written.

    Where neither the package's folder nor the user's can be written (a container with read-only packages and no home),
    or others can write the user's, a private temporary folder keeps it until the machine restarts. Without that folder,
    each process compiles again. A folder that fills up, or is no longer writable, never ends a search.
    """
    loop: Any = numba.njit(nogil=True)(function)
    try:
        loop.enable_caching()
        is_own = _is_own(Path(loop._cache.cache_path), Path(function.__code__.co_filename))
    except (RuntimeError, OSError):  # numba: "no locator available"
        is_own = False
    if not is_own and not _keep_in(_private_folder(), loop):
        return numba.njit(nogil=True)(function)
    _go_on_without_room(loop)
    return loop


def is_kept(loop: Any) -> bool:
    """Whether compiled code of a loop, of its source as it is, lies where numba looks for it."""
    try:
        return bool(loop._cache._cache_file._load_index())  # numba has no public way
    except Exception:  # noqa: BLE001 - of other versions of numba, or without a folder: it is compiled when it is needed
        return False


def _is_own(folder: Path, source: Path) -> bool:
    """Whether nobody but this user writes numba's folder of a function, whose pickles it runs.

    `NUMBA_CACHE_DIR` is the user's word. The folder beside the source is as safe as the source is.
    """
    config: Any = numba.config
    if config.CACHE_DIR or source.parent in folder.parents or not hasattr(os, "getuid"):
        return True
    return all(_is_closed(place) for place in (folder, folder.parent))


def _is_closed(folder: Path) -> bool:
    status = folder.lstat()
    others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not others_write


def _private_folder() -> Path | None:
    """A temporary folder that nobody else can write, since numba runs what lies in it; None where there is none."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    try:
        folder = Path(tempfile.gettempdir(), f"oven-retrieval-numba-{user}")
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
    return folder if private and status.st_uid == user else None


def _keep_in(folder: Path | None, loop: Any) -> bool:
    """Whether numba keeps a function's code in a folder from now on."""
    if folder is None:
        return False
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
    try:
        loop.enable_caching()
    except (RuntimeError, OSError):
        return False
    finally:
        config.CACHE_DIR = before
    return True


def _go_on_without_room(loop: Any) -> None:
    """Let compiled code be used where it cannot be written or read: numba raises an OSError then."""
    cache = loop._cache  # numba has no public way
    save, load = cache.save_overload, cache.load_overload

    def save_if_possible(*arguments: Any) -> None:
        try:
            save(*arguments)
        except OSError as error:
            warnings.warn(f"compiled code is not kept: {error}; each process compiles again", stacklevel=2)
            cache.disable()

    def load_if_possible(*arguments: Any) -> Any:
        try:
            return load(*arguments)
        except OSError:
            return None

    cache.save_overload, cache.load_overload = save_if_possible, load_if_possible
