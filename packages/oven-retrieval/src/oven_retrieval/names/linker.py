"""Names to entities: exact and folded names first, aliases, then BM25."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ..folder import Folder, FolderError, FolderWriter
from ..tokens import TOKENIZERS
from .exact import ExactTable, build_exact
from .hits import EPSILON, K1, B, NameEngine, Surfaces, check_k
from .impacts import Impacts, build_impacts
from .pruned import PrunedIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ..kb import KnowledgeBase

KIND = "oven-name-index"
STEPS = ("exact name", "folded name", "exact alias", "folded alias", "bm25")
ENGINES = ("pruned", "rank_bm25", "bm25s")
_BLOCK = 65536


class Links(NamedTuple):
    """Entities of each name, best first, [q, k].

    `rows` -1 where there is none; `steps` index into `STEPS`, -1 where there is none; `scores` BM25's, NaN for the
    other steps.
    """

    rows: npt.NDArray[np.int64]
    steps: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]


class NameLinker:
    """Map names to the entities of a knowledge base.

    Order of the answers, which is total:

    1. the step: exact name, folded name (case, width, spacing), exact alias, folded alias, BM25;
    2. among BM25's, the greater score;
    3. names before aliases;
    4. sentence case (no capital after the first character) before other spellings;
    5. the greater popularity;
    6. the earlier row of the knowledge base.

    Args:
        kb: the knowledge base.
        exact: its table of names.
        engine: its BM25 engine.
        tokenizer: name in `TOKENIZERS` that the engine was built with.

    Example:
        >>> import tempfile, pathlib
        >>> from oven_retrieval import Entity, build_kb
        >>> entities = [Entity("Q1", "Wood Wood"), Entity("Q2", "WOOD"), Entity("Q3", "Wood"), Entity("Q4", "Duck")]
        >>> kb = build_kb(entities, pathlib.Path(tempfile.mkdtemp()) / "kb")
        >>> links = build_linker(kb).link(["wood", "a fine DUCK.", "?"], k=2)
        >>> [[kb.ids[row] if row >= 0 else None for row in rows] for rows in links.rows]
        [['Q3', 'Q2'], ['Q4', None], [None, None]]
        >>> STEPS[links.steps[0, 0]], STEPS[links.steps[1, 0]]
        ('folded name', 'bm25')
    """

    def __init__(self, kb: KnowledgeBase, exact: ExactTable, engine: NameEngine, tokenizer: str) -> None:
        self.kb, self.exact, self.engine, self.tokenizer = kb, exact, engine, tokenizer
        self._tokenize: Callable[[str], list[str]] = TOKENIZERS[tokenizer]

    def link(self, names: Sequence[str], k: int = 1, *, exact_first: bool = True) -> Links:
        """The k best entities for each name.

        Args:
            names: any texts; an empty one, or one without a known token, gets no entity.
            k: how many per name, at least 1; places beyond what is found are -1.
            exact_first: False for BM25 alone, as in the paper.

        Returns:
            Rows, steps and scores, each [q, k].
        """
        if isinstance(names, str):
            raise TypeError(f"names: expected a list of texts, got one text {names[:40]!r}")
        parts = [self._link_block(names[i : i + _BLOCK], check_k(k), exact_first) for i in range(0, len(names), _BLOCK)]
        if not parts:
            return _no_links(0, k)
        return Links(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def candidates(self, name: str) -> npt.NDArray[np.int64]:
        """Rows of all entities that have this name or alias, exact or folded, in the order of the class."""
        return self.exact.find([name]).row

    def _link_block(self, names: Sequence[str], k: int, exact_first: bool) -> Links:
        links = _no_links(len(names), k)
        filled = np.zeros(len(names), dtype=np.int64)
        if exact_first:
            found = self.exact.find(names)
            place = np.arange(len(found.query)) - np.searchsorted(found.query, found.query)
            kept = place < k
            links.rows[found.query[kept], place[kept]] = found.row[kept]
            links.steps[found.query[kept], place[kept]] = found.step[kept]
            filled = np.bincount(found.query[kept], minlength=len(names))
        open_ = np.flatnonzero(filled < k)
        if len(open_):
            hits = self.engine.search([self._tokenize(names[i]) for i in open_.tolist()], k)
            _append(links, open_, filled[open_], hits.rows, hits.scores)
        return links


def _append(
    links: Links,
    queries: npt.NDArray[np.int64],
    filled: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    scores: npt.NDArray[np.float64],
) -> None:
    """Put BM25's entities behind the exact ones, each entity once."""
    k = rows.shape[1]
    new = (rows >= 0) & ~np.any(rows[:, :, None] == links.rows[queries][:, None, :], axis=2)
    place = filled[:, None] + np.cumsum(new, axis=1) - 1
    new &= place < k
    at, column = np.nonzero(new)
    target = (queries[at], place[at, column])
    links.rows[target], links.scores[target] = rows[at, column], scores[at, column]
    links.steps[target] = STEPS.index("bm25")


def _no_links(queries: int, k: int) -> Links:
    shape = (queries, k)
    return Links(np.full(shape, -1, np.int64), np.full(shape, -1, np.int64), np.full(shape, np.nan))


def _names_then_aliases(kb: KnowledgeBase) -> Iterator[str]:
    for texts in (kb.names, kb.aliases):
        for block in texts.blocks():
            yield from block


def _preference(kb: KnowledgeBase, rows: npt.NDArray[np.int64], alias: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Place of each name in the order of rules 3 to 6: a permutation."""
    shouted = np.fromiter((name[1:] != name[1:].lower() for name in _names_then_aliases(kb)), bool, len(rows))
    order = np.lexsort((rows, -kb.popularity[rows], shouted, alias))
    place = np.empty(len(rows), dtype=np.int64)
    place[order] = np.arange(len(rows))
    return place


class _Parts(NamedTuple):
    rows: npt.NDArray[np.int64]
    alias: npt.NDArray[np.bool_]
    preference: npt.NDArray[np.int64]


def _parts(kb: KnowledgeBase) -> _Parts:
    owners = np.repeat(np.arange(len(kb)), np.diff(kb.alias_ends, prepend=0))
    rows = np.concatenate([np.arange(len(kb)), owners])
    alias = np.arange(len(rows)) >= len(kb)
    return _Parts(rows, alias, _preference(kb, rows, alias))


def _check_tokenizer(tokenizer: str) -> Callable[[str], list[str]]:
    if tokenizer not in TOKENIZERS:
        raise ValueError(f"tokenizer: expected one of {sorted(TOKENIZERS)}, got {tokenizer!r}")
    return TOKENIZERS[tokenizer]


def build_linker(
    kb: KnowledgeBase, *, engine: str = "pruned", tokenizer: str = "words", k1: float = K1, b: float = B
) -> NameLinker:
    """Index the names and aliases of a knowledge base in memory.

    Args:
        kb: the knowledge base.
        engine: `pruned` (ours), `rank_bm25` (the definition) or `bm25s`.
        tokenizer: `words` or `whitespace`.
        k1: at least 0.
        b: 0 to 1.

    Raises:
        ValueError: an engine or tokenizer that does not exist.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine: expected one of {list(ENGINES)}, got {engine!r}")
    tokenize = _check_tokenizer(tokenizer)
    parts = _parts(kb)
    exact = build_exact(_names_then_aliases(kb), *parts)
    if engine == "pruned":
        tokens = (tokenize(name) for name in _names_then_aliases(kb))
        return NameLinker(
            kb, exact, PrunedIndex(build_impacts(tokens, parts.rows, parts.preference, k1=k1, b=b)), tokenizer
        )
    surfaces = Surfaces([tokenize(name) for name in _names_then_aliases(kb)], parts.rows, parts.preference)
    if engine == "rank_bm25":
        from .okapi import RankBm25

        return NameLinker(kb, exact, RankBm25(surfaces, k1=k1, b=b), tokenizer)
    from .sparse import Bm25s

    return NameLinker(kb, exact, Bm25s(surfaces, k1=k1, b=b), tokenizer)


def build_name_index(
    kb: KnowledgeBase,
    path: str | Path,
    *,
    tokenizer: str = "words",
    k1: float = K1,
    b: float = B,
    overwrite: bool = False,
) -> NameLinker:
    """Index the names and aliases of a knowledge base into a folder, and open it.

    The folder holds memory-mapped arrays and the knowledge base's hash. Arguments and errors as in `build_linker`;
    the engine is `pruned`.
    """
    tokenize = _check_tokenizer(tokenizer)
    with FolderWriter(path, KIND, overwrite=overwrite) as folder:
        parts = _parts(kb)
        build_exact(_names_then_aliases(kb), *parts).write(folder)
        tokens = (tokenize(name) for name in _names_then_aliases(kb))
        build_impacts(tokens, parts.rows, parts.preference, k1=k1, b=b).write(folder)
        folder.meta = {"kb": kb.hash, "tokenizer": tokenizer, "k1": k1, "b": b, "epsilon": EPSILON}
    return open_name_index(path, kb)


def open_name_index(path: str | Path, kb: KnowledgeBase, *, verify: bool = False) -> NameLinker:
    """Open an index of `build_name_index`.

    Raises:
        FolderError: the folder is damaged, or it was built from other entities (both hashes are shown).
    """
    folder = Folder(path, KIND, verify=verify)
    if folder.meta["kb"] != kb.hash:
        raise FolderError(
            f"{folder.path}: built from the entities {folder.meta['kb'][:12]}…, "
            f"expected those of {kb.path}, {kb.hash[:12]}…; build it again"
        )
    return NameLinker(kb, ExactTable.read(folder), PrunedIndex(Impacts.read(folder)), folder.meta["tokenizer"])
