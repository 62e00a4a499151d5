"""The commit of the working folder's Git repository, read as plain text: no Git runs where others may write."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

_DIGEST = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REFERENCE = re.compile(r"refs/[A-Za-z0-9_][\w.+@=-]*(?:/[A-Za-z0-9_][\w.+@=-]*)*", re.ASCII)
_SHORT, _PACKED = 4096, 4 << 20
_DEPTH = 64
"""Folders upwards that are looked at."""


def revision(folder: Path) -> str | None:
    """Return the commit that is checked out in a folder or in the nearest folder above it with a ``.git``.

    The program ``git`` obeys what a repository's own files say (``core.fsmonitor``, filters), so it is not started.
    Links are not followed. Whether files differ from the commit is not looked at.

    Args:
        folder: where to begin.

    Returns:
        40 or 64 hexadecimal digits, or None where there is no repository, no commit, or anything unusual.

    Example:
        >>> revision(Path("/")) is None
        True
    """
    folder = folder.absolute()
    for above in [folder, *folder.parents][:_DEPTH]:
        entry = above / ".git"
        try:
            mode = entry.lstat().st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode):
            return _commit(entry, entry)
        return _worktree(entry) if stat.S_ISREG(mode) else None
    return None


def _worktree(entry: Path) -> str | None:
    """The commit of a ``git worktree``: its ``.git`` is a file, and the repository has to name that file in turn."""
    text = _text(entry)
    if text is None or not text.startswith("gitdir: "):
        return None
    private = Path(os.path.normpath(entry.parent / text.removeprefix("gitdir: ")))
    if private.parent.name != "worktrees" or private.resolve() != private:
        return None
    back = _text(private / "gitdir")
    if back is None or Path(os.path.normpath(private / back)) != Path(os.path.normpath(entry)):
        return None
    return _commit(private, private.parents[1])


def _commit(private: Path, common: Path) -> str | None:
    """What HEAD of ``private`` stands for, by the references that lie in either folder."""
    head = _text(private / "HEAD")
    if head is None or not head.startswith("ref: "):
        return _digest(head)
    name = head.removeprefix("ref: ").strip()
    if not _REFERENCE.fullmatch(name) or ".." in name:
        return None
    for root in dict.fromkeys((private, common)):
        if any((root / part).is_symlink() for part in [name, *map(str, Path(name).parents)][:-1]):
            return None
        if (commit := _digest(_text(root / name))) is not None:
            return commit
    for line in (_text(common / "packed-refs", _PACKED) or "").splitlines():
        commit, _, packed = line.partition(" ")
        if packed == name:
            return _digest(commit)
    return None


def _digest(text: str | None) -> str | None:
    text = (text or "").strip()
    return text if _DIGEST.fullmatch(text) else None


def _text(path: Path, largest: int = _SHORT) -> str | None:
    """A regular file's text; None where it is a link, a pipe, too large, or cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return None
    with os.fdopen(handle, "rb") as file:
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            content = file.read(largest + 1)
        except OSError:
            return None
    return content.decode("utf-8", "replace").strip() if len(content) <= largest else None
