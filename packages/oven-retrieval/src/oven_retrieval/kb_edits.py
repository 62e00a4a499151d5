"""What was added to and removed from a knowledge base after it was built: folders beside its columns, in order."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .folder import Folder, FolderError

KIND = "oven-knowledge-base"
REMOVED_KIND = "oven-removed-rows"
EDITS = "edits.json"
_LOCK = "edits.lock"


class Version(NamedTuple):
    """A state of the knowledge base: its hash, and how many rows it had (removed ones included)."""

    hash: str
    rows: int


class Edits(NamedTuple):
    """The edits of a knowledge base.

    `folders` in order, each with whether it was added (else it lists removed rows); `versions` the states, from the
    one that was built to the present one.
    """

    folders: tuple[tuple[bool, Folder], ...]
    versions: tuple[Version, ...]

    def added(self) -> list[Folder]:
        """Folders of added entities, in order."""
        return [folder for is_added, folder in self.folders if is_added]

    def removed(self) -> npt.NDArray[np.int64]:
        """Rows that were removed, rising."""
        rows = [folder.array("row") for is_added, folder in self.folders if not is_added]
        return np.sort(np.concatenate(rows)) if rows else np.zeros(0, np.int64)


def next_version(before: Version, is_added: bool, folder: Folder) -> Version:
    """The state after an edit; its hash depends on the state before and on every byte of the edit."""
    text = f"{before.hash} {'added' if is_added else 'removed'} {folder.hash}"
    rows = before.rows + (folder.meta["count"] if is_added else 0)
    return Version(hashlib.sha256(text.encode()).hexdigest(), rows)


def read_edits(base: Folder, *, verify: bool = False) -> Edits:
    """Open the edits of a knowledge base.

    Raises:
        FolderError: an edit is missing, damaged, or not the one that is listed.
    """
    file = base.path / EDITS
    versions = [Version(base.hash, base.meta["count"])]
    if not file.is_file():
        return Edits((), tuple(versions))
    try:
        listed = json.loads(file.read_text(encoding="utf-8"))
        found, names = listed["base"], [(str(edit["folder"]), str(edit["hash"])) for edit in listed["edits"]]
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise FolderError(f"{file}: not a list of edits: {error!r}") from None
    if found != base.hash:
        raise FolderError(f"{file}: belongs to {found!r:.20}, expected the entities beside it, {base.hash[:12]}…")
    folders = []
    for name, digest in names:
        is_added = name.startswith("added-")
        if Path(name).name != name:
            raise FolderError(f"{file}: edit {name!r} is not a plain folder name")
        folder = Folder(base.path / name, KIND if is_added else REMOVED_KIND, verify=verify)
        if folder.hash != digest:
            raise FolderError(f"{folder.path}: expected the edit {digest[:12]}…, found {folder.hash[:12]}…")
        folders.append((is_added, folder))
        versions.append(next_version(versions[-1], is_added, folder))
    return Edits(tuple(folders), tuple(versions))


def edit_path(base: Folder, edits: Edits, is_added: bool) -> Path:
    """Where the next edit goes; what a killed edit left there is cleared."""
    path = base.path / f"{'added' if is_added else 'removed'}-{len(edits.folders) + 1:06d}"
    if path.exists():
        shutil.rmtree(path)
    return path


def commit(base: Folder, edits: Edits, folder: Folder) -> None:
    """List a finished edit: from here on it counts. One file takes the place of another, so a kill never halves it."""
    entries = [{"folder": f.path.name, "hash": f.hash} for f in [*(f for _, f in edits.folders), folder]]
    new = base.path / f"{EDITS}.new"
    try:
        with new.open("w", encoding="utf-8") as file:
            json.dump({"base": base.hash, "edits": entries}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        new.replace(base.path / EDITS)
    except OSError:
        new.unlink(missing_ok=True)
        shutil.rmtree(folder.path, ignore_errors=True)
        raise


@contextmanager
def one_writer(path: Path) -> Iterator[None]:
    """Hold the lock of a knowledge base's edits; released by the system when the process ends, however it ends.

    Raises:
        FolderError: another process is editing. Where the system has no file locks, nothing is checked.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (path / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FolderError(f"{path}: another process is editing these entities; expected one at a time") from None
        yield
