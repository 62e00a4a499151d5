"""A name index follows its knowledge base: names are added and taken out without tokenising the rest again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oven_retrieval.folder import Folder, FolderError
from oven_retrieval.folder_writer import FolderWriter
from oven_retrieval.names.exact import ExactTable, build_exact
from oven_retrieval.names.impacts import Impacts, unpack
from oven_retrieval.names.index import KIND, open_name_index, read_inflections, write_bm25, write_loose
from oven_retrieval.names.inflection import build_loose
from oven_retrieval.names.linker import NameLinker, check_tokenizer
from oven_retrieval.names.ngrams import build_ngrams
from oven_retrieval.names.occurrences import Occurrences, count_tokens, join, keep
from oven_retrieval.names.places import NamePlaces, Table, name_places, name_texts, taken

if TYPE_CHECKING:
    from pathlib import Path

    from oven_retrieval.kb import KnowledgeBase


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
        N-grams are built anew. One pass over the other arrays, which are written anew beside the old ones and then
        take their place; a kill leaves the old ones. `benchmarks/edits.py` measures it against building.

    Example:
        >>> from oven_retrieval import Entity, build_kb
        >>> from oven_retrieval import add_entities, build_name_index
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> kb = build_kb([Entity("Q1", "Wood duck", aliases=("Aix",)), Entity("Q2", "Goose")], folder / "kb")
        >>> _ = build_name_index(kb, folder / "names")
        >>> kb = add_entities(kb, [Entity("Q3", "Teal")])
        >>> kb.ids[update_name_index(folder / "names", kb).link(["teals"]).rows[0, 0]]
        'Q3'
    """
    folder = Folder(path, KIND)
    if folder.meta["kb"] == kb.hash:
        return open_name_index(path, kb)
    former = kb.former_rows(folder.meta["kb"])
    if former is None:
        raise FolderError(
            f"{folder.path}: built from the entities {folder.meta['kb'][:12]}…, which {kb.path} has never held; "
            f"expected an earlier version of {kb.hash[:12]}…; build it again (`oven update --rebuild`)"
        )
    staying = np.flatnonzero((former >= 0) & ~kb.removed)
    first_new = int(np.count_nonzero(former >= 0))  # new rows come after all others
    row_now = np.full(int(former.max(initial=-1)) + 1, -1, dtype=np.int64)
    row_now[former[staying]] = staying

    impacts, exact = Impacts.read(folder), ExactTable.read(folder)
    tokenize = check_tokenizer(folder.meta["tokenizer"])
    owner = _moved(row_now, impacts.owner)
    name_stays = owner >= 0
    spoken = folder.array("name_language")[name_stays] if "name_language" in folder else None
    stayed = NamePlaces(
        owner[name_stays], folder.array("name_alias")[name_stays], folder.array("name_shouted")[name_stays], spoken
    )
    new = name_places(kb, first_new)
    places = stayed.followed_by(new)
    old_names = occurrences_of(impacts, folder)
    names = join(keep(old_names, name_stays), count_tokens(tokenize(name) for name in name_texts(kb, first_new)))

    inflections = read_inflections(folder, exact, kb)
    with FolderWriter(path, KIND, overwrite=True) as writer:
        if inflections is not None:
            moved, exceptions = _staying(inflections.table, row_now), inflections.exceptions
            write_loose(writer, build_loose(name_texts(kb, first_new), new, exceptions, moved), exceptions)
        staying_names = _staying(exact, row_now)
        writer.table("exact", build_exact(name_texts(kb, first_new), new, kb.popularity, staying_names))
        write_bm25(writer, kb, places, names, k1=folder.meta["k1"], b=folder.meta["b"])
        if "ngram_post" in folder:
            build_ngrams(kb, scratch=writer.scratch).write(writer)
        writer.meta = {**folder.meta, **writer.meta, "kb": kb.hash}
    return open_name_index(path, kb)


def occurrences_of(impacts: Impacts, folder: Folder) -> Occurrences:
    """What a name index was built from: its names' tokens, read back from its records.

    Example:
        >>> from oven_retrieval import Entity, build_kb
        >>> from oven_retrieval import build_name_index
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> kb = build_kb([Entity("Q1", "Wood duck", aliases=("Aix",)), Entity("Q2", "Goose")], folder / "kb")
        >>> _ = build_name_index(kb, folder / "names")
        >>> stored = Folder(folder / "names", KIND)
        >>> occurrences_of(Impacts.read(stored), stored).length.tolist()
        [2, 1, 1]
    """
    length, repeated, times = (folder.array(f"occurrences_{name}") for name in ("length", "repeated", "times"))
    heads = np.cumsum(length + 1, dtype=np.int64) - length - 1
    pairs = np.ones(len(impacts.records), dtype=np.bool_)
    pairs[heads] = False
    return Occurrences(np.asarray(impacts.token_hash), unpack(impacts.records)[0][pairs], length, repeated, times)


def _staying(table: Table, row_now: npt.NDArray[np.int64]) -> Table:
    """Those of a table's names that stay, in their rows of now."""
    columns: Any = table
    row = _moved(row_now, columns.row)
    names: Table = taken(columns, row >= 0)._replace(row=row[row >= 0].astype(np.int32))
    return names


def _moved(row_now: npt.NDArray[np.int64], rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """The rows that these were, now; -1 for those that are gone."""
    inside = rows < len(row_now)
    moved = np.full(len(rows), -1, dtype=np.int64)
    moved[inside] = row_now[rows[inside]]
    return moved
