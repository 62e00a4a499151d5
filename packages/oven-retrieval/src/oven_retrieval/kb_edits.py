"""What was added to and removed from a knowledge base after it was built: folders beside its columns, in order."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from oven_retrieval.durable import own_file, replace_file
from oven_retrieval.folder import Folder, FolderError
from oven_retrieval.text_files import read_json

if TYPE_CHECKING:
    from jaxtyping import Int64

KIND = "oven-knowledge-base"
REMOVED_KIND = "oven-removed-rows"
EDITS = "edits.json"


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

    def removed(self) -> Int64[np.ndarray, " removed"]:
        """Rows that were removed, rising."""
        rows = [folder.array("row") for is_added, folder in self.folders if not is_added]
        return np.sort(np.concatenate(rows)) if rows else np.zeros(0, np.int64)


def entities_in(folder: Folder) -> int:
    """How many entities a folder's manifest counts."""
    count, ids = folder.meta["count"], len(folder.array("id.ends"))
    if not isinstance(count, int) or count != ids:
        raise FolderError(f"{folder.path}: the manifest counts {count!r:.40} entities, there are {ids} ids")
    return count


def next_version(before: Version, is_added: bool, folder: Folder) -> Version:
    """The state after an edit; its hash depends on the state before and on every byte of the edit."""
    text = f"{before.hash} {'added' if is_added else 'removed'} {folder.hash}"
    rows = before.rows + (entities_in(folder) if is_added else 0)
    return Version(hashlib.sha256(text.encode()).hexdigest(), rows)


def read_edits(base: Folder, *, verify: bool = False) -> Edits:
    """Open the edits of a knowledge base."""
    file = base.location / EDITS
    versions = [Version(base.hash, entities_in(base))]
    if not file.is_file():
        return Edits((), tuple(versions))
    try:
        listed = read_json(file)
        base_hash, names = listed["base"], [(str(edit["folder"]), str(edit["hash"])) for edit in listed["edits"]]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FolderError(f"{file}: not a list of edits: {error!r:.200}") from None
    if base_hash != base.hash:
        raise FolderError(f"{file}: belongs to {base_hash!r:.20}, expected the entities beside it, {base.hash[:12]}…")
    folders = []
    for name, digest in names:
        is_added = name.startswith("added-")
        if Path(name).name != name:
            raise FolderError(f"{file}: edit {name!r} is not a plain folder name")
        folder = Folder(base.location / name, KIND if is_added else REMOVED_KIND, verify=verify)
        if folder.hash != digest:
            raise FolderError(f"{folder.path}: expected the edit {digest[:12]}…, found {folder.hash[:12]}…")
        folders.append((is_added, folder))
        versions.append(next_version(versions[-1], is_added, folder))
    return Edits(tuple(folders), tuple(versions))


def edit_path(base: Folder, edits: Edits, is_added: bool) -> Path:
    """Where the next edit goes."""
    return base.path / f"{'added' if is_added else 'removed'}-{len(edits.folders) + 1:06d}"


def clear_unlisted(base: Folder, edits: Edits) -> None:
    """Remove what killed edits have left: folders that are not listed, and halves. Needs the lock of the folder."""
    listed = {folder.path.name for _, folder in edits.folders}
    for entry in base.path.iterdir():
        is_edit = entry.name.startswith(("added-", "removed-")) and entry.name not in listed
        if is_edit and own_file(entry).is_dir():
            shutil.rmtree(entry)
        elif entry.name == f"{EDITS}.new":
            entry.unlink()


def commit(base: Folder, edits: Edits, folder: Folder) -> None:
    """List a finished edit: from here on it counts. One file takes the place of another, so a kill never halves it."""
    entries = [{"folder": f.path.name, "hash": f.hash} for f in [*(f for _, f in edits.folders), folder]]
    try:
        replace_file(base.path / EDITS, json.dumps({"base": base.hash, "edits": entries}, indent=1))
    except OSError:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise
