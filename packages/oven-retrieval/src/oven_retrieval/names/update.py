"""A name index follows its knowledge base: names are added and taken out without tokenising the rest again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..folder import Folder, FolderError, FolderWriter
from .exact import ExactTable, build_exact
from .impacts import Impacts
from .linker import KIND, NameLinker, check_tokenizer, open_name_index, write_bm25
from .occurrences import count_tokens, join, keep, occurrences_of
from .places import NamePlaces, name_places, name_texts

if TYPE_CHECKING:
    from pathlib import Path

    from ..kb import KnowledgeBase


def update_name_index(path: str | Path, kb: KnowledgeBase) -> NameLinker:
    """Bring an index up to date with what was added to and removed from its knowledge base since, and open it.

    The tokens of the names that stay are read back from the index; only new names are tokenised. All statistics (the
    number of names, their mean length, every document frequency and idf) are then taken anew over the names that are
    there now, and every impact with them: steps, scores to the bit, and order equal those of an index built from
    scratch.

    Args:
        path: an index of `build_name_index`, of this knowledge base or of an earlier version of it.
        kb: the knowledge base as it is now.

    Raises:
        FolderError: the index is damaged or belongs to other entities.

    Numerics:
        One pass over the arrays, which are written anew beside the old ones and then take their place; a kill leaves
        the old ones. `benchmarks/edits.py` measures it against building.
    """
    folder = Folder(path, KIND)
    if folder.meta["kb"] == kb.hash:
        return open_name_index(path, kb)
    former = kb.former_rows(folder.meta["kb"])
    if former is None:
        raise FolderError(
            f"{folder.path}: built from the entities {folder.meta['kb'][:12]}…, which {kb.path} has never held; "
            f"expected an earlier version of {kb.hash[:12]}…; build it again"
        )
    staying = np.flatnonzero((former >= 0) & ~kb.removed)
    first_new = int(np.count_nonzero(former >= 0))  # new rows come after all others
    row_now = np.full(int(former.max(initial=-1)) + 1, -1, dtype=np.int64)
    row_now[former[staying]] = staying

    impacts, exact = Impacts.read(folder), ExactTable.read(folder)
    tokenize = check_tokenizer(folder.meta["tokenizer"])
    owner = _moved(row_now, impacts.owner)
    kept = owner >= 0
    stayed = NamePlaces(owner[kept], folder.array("name_alias")[kept], folder.array("name_shouted")[kept])
    new = name_places(kb, first_new)
    places = NamePlaces(*(np.concatenate(columns) for columns in zip(stayed, new, strict=True)))
    old_names = occurrences_of(impacts, folder)
    names = join(keep(old_names, kept), count_tokens(tokenize(name) for name in name_texts(kb, first_new)))

    exact_row = _moved(row_now, exact.row)
    there = exact_row >= 0
    base = ExactTable(
        exact.key[there],
        exact.spelling[there],
        exact_row[there].astype(np.int32),
        exact.alias[there],
        exact.shouted[there],
    )
    with FolderWriter(path, KIND, overwrite=True) as writer:
        build_exact(name_texts(kb, first_new), new, kb.popularity, base).write(writer)
        write_bm25(writer, kb, places, names, k1=folder.meta["k1"], b=folder.meta["b"])
        writer.meta = {**folder.meta, "kb": kb.hash}
    return open_name_index(path, kb)


def _moved(row_now: npt.NDArray[np.int64], rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """The rows that these were, now; -1 for those that are gone."""
    inside = rows < len(row_now)
    moved = np.full(len(rows), -1, dtype=np.int64)
    moved[inside] = row_now[rows[inside]]
    return moved
