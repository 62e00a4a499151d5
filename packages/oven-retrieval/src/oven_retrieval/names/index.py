"""Indexes of a knowledge base's names: built in memory or into a folder, and opened."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from oven_retrieval.folder import Folder, FolderError
from oven_retrieval.folder_writer import FolderWriter
from oven_retrieval.names.exact import ExactTable, build_exact
from oven_retrieval.names.impacts import (
    EPSILON,
    K1,
    B,
    Impacts,
    build_impacts,
    count_tokens,
    damage_in,
    score_occurrences,
)
from oven_retrieval.names.inflection import Exceptions, Inflections, LooseTable, build_loose
from oven_retrieval.names.linker import NameLinker, check_tokenizer
from oven_retrieval.names.ngrams import NgramIndex, build_ngrams
from oven_retrieval.names.places import name_places, name_texts
from oven_retrieval.names.pruned import PrunedIndex

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from oven_retrieval.kb import KnowledgeBase
    from oven_retrieval.progress import Progress

KIND = "oven-name-index"
ENGINES = ("pruned", "rank_bm25")


def index_phases(*, ngrams: bool = True, inflections: bool = True) -> tuple[str, ...]:
    """Return the phases that `build_name_index` reports, in their order."""
    loose = ("inflections",) if inflections else ()
    alike = ("trigrams", "trigrams again") if ngrams else ()
    return ("names", *loose, *alike, "words", "postings")


def build_linker(
    kb: KnowledgeBase,
    *,
    engine: str = "pruned",
    tokenizer: str = "words",
    k1: float = K1,
    b: float = B,
    inflections: bool = True,
    ngrams: bool = True,
    exceptions: Exceptions | None = None,
) -> NameLinker:
    """Index the names and aliases of a knowledge base in memory.

    Args:
        kb: the knowledge base.
        engine: `pruned` (ours) or `rank_bm25`: the definition, to check ours by.
        tokenizer: one of `TOKENIZERS`: `words`, `bigrams` or `whitespace`.
        k1: at least 0.
        b: 0 to 1.
        inflections: with the step of English inflections.
        ngrams: with the steps of n-grams and typos.
        exceptions: irregular plurals beside its rules (see `read_exceptions`).

    Raises:
        ValueError: an engine or tokenizer that does not exist.

    Example:
        >>> from oven_retrieval import KnowledgeBase
        >>> linker = build_linker(KnowledgeBase.from_names(["Wood duck", "Goose"]), tokenizer="bigrams")
        >>> linker.link(["the wood ducks", "goose"]).rows[:, 0].tolist()
        [0, 1]
    """
    if engine not in ENGINES:
        raise ValueError(f"engine: expected one of {list(ENGINES)}, got {engine!r}")
    tokenize = check_tokenizer(tokenizer)
    places = name_places(kb)
    exact = build_exact(name_texts(kb), places, kb.popularity)
    loose = None
    if inflections:
        loose = Inflections(exact, build_loose(name_texts(kb), places, exceptions), kb.popularity, exceptions)
    alike = NgramIndex.of(kb) if ngrams else None
    tokens = (tokenize(name) for name in name_texts(kb))
    preference = places.preference(kb.popularity)
    if engine == "pruned":
        pruned = PrunedIndex(build_impacts(tokens, places.row, preference, k1=k1, b=b))
        linker = NameLinker(kb, exact, pruned, tokenizer, alike, loose, places.language)
        linker.bm25 = k1, b
        return linker
    from oven_retrieval.names.okapi import RankBm25

    defined = RankBm25(list(tokens), places.row, preference, k1=k1, b=b)
    return NameLinker(kb, exact, defined, tokenizer, alike, loose, places.language)


def build_name_index(
    kb: KnowledgeBase,
    path: str | Path,
    *,
    tokenizer: str = "words",
    k1: float = K1,
    b: float = B,
    inflections: bool = True,
    ngrams: bool = True,
    exceptions: Exceptions | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> NameLinker:
    """Index the names and aliases of a knowledge base into a folder, and open it.

    The folder holds memory-mapped arrays and the knowledge base's hash. Arguments and errors as in `build_linker`.

    Example:
        >>> from oven_retrieval import Entity, build_kb
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> kb = build_kb([Entity("Q1", "Wood duck", aliases=("Aix",)), Entity("Q2", "Goose")], folder / "kb")
        >>> linker = build_name_index(kb, folder / "names")
        >>> links = linker.link(["aix"])
        >>> links.ids(), links.steps()
        ([['Q1']], [['folded alias']])
    """
    from oven_retrieval.progress import told  # who opens an index counts nothing

    tokenize = check_tokenizer(tokenizer)
    with FolderWriter(path, KIND, overwrite=overwrite) as folder:
        places = name_places(kb)

        def names(phase: str) -> Iterator[str]:
            return told(name_texts(kb), phase, len(places.row), progress)

        folder.table("exact", build_exact(names("names"), places, kb.popularity))
        if inflections:
            folder.table("loose", build_loose(names("inflections"), places, exceptions))
            plurals, singulars = folder.texts("plural"), folder.texts("singular")
            for plural, words in (exceptions or {}).items():
                for word in words:
                    plurals.append(plural)
                    singulars.append(word)
        if ngrams:
            build_ngrams(kb, scratch=folder.scratch, names=names).write(folder)
        counted = count_tokens(tokenize(name) for name in names("words"))
        if progress is not None:
            progress("postings", 0, len(places.row))
        preference = places.preference(kb.popularity)
        folder.table("bm25", score_occurrences(counted, places.row, preference, k1=k1, b=b, scratch=folder.scratch))
        if places.language is not None:
            folder.array("name_language", places.language)
        if progress is not None:
            progress("postings", len(places.row), len(places.row))
        folder.meta |= {"kb": kb.hash, "tokenizer": tokenizer, "k1": k1, "b": b, "epsilon": EPSILON}
    return open_name_index(path, kb)


def open_name_index(path: str | Path, kb: KnowledgeBase, *, verify: bool = False) -> NameLinker:
    """Open an index of `build_name_index`.

    Raises:
        FolderError: the folder is damaged, or it was built from other entities (both hashes are shown).

    Example:
        >>> from oven_retrieval import Entity, build_kb
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> kb = build_kb([Entity("Q1", "Wood duck", aliases=("Aix",)), Entity("Q2", "Goose")], folder / "kb")
        >>> _ = build_name_index(kb, folder / "names")
        >>> linker = open_name_index(folder / "names", kb, verify=True)
        >>> kb.ids[linker.link(["geese"]).rows[0, 0]]
        'Q2'
    """
    folder = Folder(path, KIND, verify=verify)
    if folder.meta["kb"] != kb.hash:
        raise FolderError(
            f"{folder.path}: built from the entities {folder.meta['kb'][:12]}…, expected those of {kb.path}, "
            f"{kb.hash[:12]}…; bring it up to date (update_name_index, or `oven update`)"
        )
    for prefix, kind in (("exact", ExactTable), ("loose", LooseTable)):
        folder.check_alike(*(f"{prefix}_{name}" for name in kind._fields))
    folder.check_alike("ngram_weight", "ngram_length", "ngram_origin")
    try:
        linker = _opened(folder, kb)
    except FolderError as error:
        raise damage_in(folder.path, error) from error
    linker.path = folder.path
    linker.stored = partial(_reopen, folder.place, folder.hash)
    return linker


def _opened(folder: Folder, kb: KnowledgeBase) -> NameLinker:
    exact = ExactTable.read(folder)
    inflections = None
    if "loose_key" in folder:
        inflections = Inflections(exact, folder.table("loose", LooseTable), kb.popularity, _exceptions(folder))
    spoken = folder.array("name_language") if "name_language" in folder else None
    engine = PrunedIndex(Impacts.read(folder))
    linker = NameLinker(kb, exact, engine, folder.meta["tokenizer"], NgramIndex.read(folder, kb), inflections, spoken)
    linker.bm25 = folder.meta["k1"], folder.meta["b"]
    return linker


def _reopen(path: Path, content: str, kb: KnowledgeBase, switches: dict[str, bool]) -> NameLinker:
    """Open an index that was pickled by its path, or say that something else has taken its place."""
    linker, now = open_name_index(path, kb), Folder(path, KIND).hash
    if now != content:
        raise FolderError(
            f"{path}: {now[:12]}…, expected {content[:12]}…: it was written again after it was pickled; open it"
        )
    linker.switch(switches)
    return linker


def _exceptions(folder: Folder) -> dict[str, tuple[str, ...]]:
    """The irregular plurals that an index was built with."""
    exceptions: dict[str, tuple[str, ...]] = {}
    for plural, word in zip(folder.texts("plural"), folder.texts("singular"), strict=True):
        exceptions[plural] = (*exceptions.get(plural, ()), word)
    return exceptions


def update_name_index(path: str | Path, kb: KnowledgeBase, *, progress: Progress | None = None) -> NameLinker:
    """Build an index anew, as it was built before, where its entities have changed since; and open it.

    Args:
        path: an index of `build_name_index`.
        kb: the knowledge base as it is now.
        progress: as in `build_name_index`.

    Raises:
        FolderError: the index is damaged.

    Example:
        >>> from oven_retrieval import Entity, add_entities, build_kb
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
    has_inflections = "loose_key" in folder
    return build_name_index(
        kb,
        path,
        tokenizer=folder.meta["tokenizer"],
        k1=folder.meta["k1"],
        b=folder.meta["b"],
        inflections=has_inflections,
        ngrams="ngram_post" in folder,
        exceptions=_exceptions(folder) if has_inflections else None,
        overwrite=True,
        progress=progress,
    )
