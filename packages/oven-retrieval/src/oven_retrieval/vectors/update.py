"""An index follows its vectors: rows are added, taken out and renumbered without training or adding the rest again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np
import numpy.typing as npt

from oven_retrieval.durable import replace_file
from oven_retrieval.folder import MANIFEST, Folder, FolderError
from oven_retrieval.folder_writer import FolderWriter
from oven_retrieval.locking import locks
from oven_retrieval.progress import Say
from oven_retrieval.text_files import read_json
from oven_retrieval.vectors.index import (
    KIND,
    VectorIndex,
    add_rows,
    build_index,
    index_meta,
    measure,
    open_index,
    stored_index,
    stored_plan,
    stored_sample,
    write_index,
)
from oven_retrieval.vectors.store import VectorStore

if TYPE_CHECKING:
    from jaxtyping import Int64

_BLOCK = 20_000


@locks("path")
def update_index(
    path: str | Path,
    vectors: VectorStore,
    former: Callable[[str], Int64[np.ndarray, " n"] | None],
    *,
    say: Say | None = None,
) -> VectorIndex:
    """Bring an index up to date with its vectors, and open it.

    Rows that stay keep their codes and lists, so that they are found as before; centroids are not trained again: where
    much of the knowledge base has changed, build anew. Afterwards the recall is measured on stored vectors, and at
    least as many lists are visited as before.

    Args:
        path: an index of `build_index`, of these vectors or of an earlier version of them.
        vectors: as they are now.
        former: where each row was in the version with a given hash, -1 for new ones; `KnowledgeBase.former_rows`.
        say: called with one line per step.

    Raises:
        FolderError: the index is damaged or was built from vectors of other entities.

    Numerics:
        One pass over the ids. The new index is written beside the old one and then takes its place.

    Example:
        >>> import tempfile
        >>> from oven_retrieval.vectors import build_vectors
        >>> folder = Path(tempfile.mkdtemp())
        >>> store = build_vectors(lambda a, b: np.eye(8)[a:b], 8, folder / "vectors", kb="k", encoder="one-hot")
        >>> _ = build_index(store, folder / "index")
        >>> update_index(folder / "index", store, lambda version: np.arange(8)).search(np.eye(8)[5:6]).rows.tolist()
        [[5]]
    """
    talk = say or (lambda line: None)
    folder = Folder(path, KIND, verify=True)
    if folder.meta["vectors"] == vectors.hash:
        if folder.meta["kb"] != vectors.meta["kb"]:  # other entities with the same vectors: the next edit starts there
            manifest = read_json(folder.location / MANIFEST)
            manifest["meta"]["kb"] = vectors.meta["kb"]
            replace_file(folder.location / MANIFEST, json.dumps(manifest, indent=1))
        return open_index(path, vectors, verify=False)
    plan, report = stored_plan(folder)
    before = former(folder.meta["kb"])
    if before is None:
        raise FolderError(
            f"{folder.path}: built from vectors of the entities {folder.meta['kb'][:12]}…, which "
            f"{vectors.meta['kb'][:12]}… have never been; build it again"
        )
    if plan.factory == "exact":
        return build_index(vectors, path, recall=report.wanted, overwrite=True, say=say)
    index = stored_index(folder, vectors.dim)
    gone = np.zeros(len(vectors), np.bool_) if vectors.removed is None else vectors.removed
    staying = np.flatnonzero((before >= 0) & ~gone)
    dropped = _renumber(index, before[staying], staying)
    new = np.flatnonzero((before < 0) & ~gone)
    for first in range(0, len(new), _BLOCK):
        add_rows(index, vectors, new[first : first + _BLOCK])
    talk(f"{dropped:,} rows taken out, {len(new):,} added, {index.ntotal:,} in all")
    built = VectorIndex(vectors, plan, index)
    built.report = measure(
        built, stored_sample(vectors, 0), recall=report.wanted, cross_modal=False, least=report.probes
    )
    talk(str(built.report))
    file = folder.path.with_name(f"{folder.path.name}.updated.faiss")
    with FolderWriter(path, KIND, overwrite=True) as writer:
        write_index(index, file)
        writer.adopt("index", file)
        writer.meta = index_meta(vectors, plan, built.report)
    return built


def _ids(lists: Any, number: int) -> npt.NDArray[np.int64]:
    """The ids of one list, in place."""
    ids: npt.NDArray[np.int64] = faiss.rev_swig_ptr(lists.get_ids(number), lists.list_size(number))
    return ids


def _renumber(index: faiss.Index, before: npt.NDArray[np.int64], now: npt.NDArray[np.int64]) -> int:
    """Give every row its new number, and take out those without one; returns how many."""
    order = np.argsort(before)
    known, numbers = np.append(before[order], np.iinfo(np.int64).max), np.append(now[order], -1)
    lists: Any = faiss.extract_index_ivf(index).invlists
    for number in range(lists.nlist):
        if lists.list_size(number):
            ids = _ids(lists, number)
            place = np.searchsorted(known, ids)
            ids[:] = np.where(known[place] == ids, numbers[place], -1)
    return int(index.remove_ids(faiss.IDSelectorRange(-1, 0)))
